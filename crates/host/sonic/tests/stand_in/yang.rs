//! yanglint's verdict on rows, by SONiC's YANG models. The models are not in this tree: they are looked for below the
//! directory of WEIR_SHARED, or below `shared` beside the tree.

use super::{Row, Rows, print_skipped};
use serde_json::{Map, Value, json};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// The directory of the models; `None` where this host has none, which is printed.
pub(crate) fn models() -> Option<PathBuf> {
    let shared = std::env::var_os("WEIR_SHARED")
        .map_or_else(|| Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../../shared"), PathBuf::from);
    let models = shared.join("data").join("sonic-yang");
    if models.join("sonic-queue.yang").is_file() {
        return Some(models);
    }
    print_skipped(&format!("rows against SONiC's YANG models; there is no {}", models.display()));
    None
}

/// A value as the models have it: a number in these fields, a text in all others.
fn value(field: &str, text: &str) -> Value {
    match field {
        "speed" | "index" | "mtu" | "weight" => json!(text.parse::<u64>().expect("a number")),
        "wred_green_enable" => json!(text == "true"),
        _ => json!(text),
    }
}

fn entry(keys: &[(&str, &str)], row: &Row) -> Value {
    let keys = keys.iter().map(|(name, key)| ((*name).to_owned(), json!(key)));
    let fields = row.iter().map(|(field, text)| (field.clone(), value(field, text)));
    Value::Object(keys.chain(fields).collect::<Map<_, _>>())
}

/// A table of CONFIG_DB as its model has it: a list with the parts of keys as fields; the fields of a map are an inner
/// list.
fn table(name: &str, rows: &Rows) -> Value {
    let inner = |row: &Row, pair: fn(&str, &str) -> Value| -> Vec<Value> {
        row.iter().map(|(field, text)| pair(field, text)).collect()
    };
    let list = rows.iter().filter_map(|(key, row)| {
        let key = key.strip_prefix(&format!("{name}|"))?;
        Some(match name {
            "DEVICE_METADATA" => return None,
            "QUEUE" => {
                let (port, queue) = key.split_once('|').expect("two parts");
                entry(&[("ifname", port), ("qindex", queue)], row)
            }
            "PORT_QOS_MAP" => entry(&[("ifname", key)], row),
            "DSCP_TO_TC_MAP" => {
                let pair =
                    |field: &str, text: &str| json!({ "dscp": field, "tc": text.parse::<u64>().expect("a class") });
                json!({ "name": key, "DSCP_TO_TC_MAP": inner(row, pair) })
            }
            "TC_TO_QUEUE_MAP" => {
                let pair =
                    |field: &str, text: &str| json!({ "tc": field.parse::<u64>().expect("a class"), "qindex": text });
                json!({ "name": key, "TC_TO_QUEUE_MAP": inner(row, pair) })
            }
            _ => entry(&[("name", key)], row),
        })
    });
    let list: Vec<Value> = list.collect();
    if name == "DEVICE_METADATA" {
        return json!({ name: { "localhost": entry(&[], &rows["DEVICE_METADATA|localhost"]) } });
    }
    json!({ name: { format!("{name}_LIST"): list } })
}

fn document(rows: &Rows) -> Value {
    let modules = [
        ("sonic-device_metadata", "DEVICE_METADATA"),
        ("sonic-port", "PORT"),
        ("sonic-scheduler", "SCHEDULER"),
        ("sonic-wred-profile", "WRED_PROFILE"),
        ("sonic-dscp-tc-map", "DSCP_TO_TC_MAP"),
        ("sonic-tc-queue-map", "TC_TO_QUEUE_MAP"),
        ("sonic-port-qos-map", "PORT_QOS_MAP"),
        ("sonic-queue", "QUEUE"),
    ];
    modules.iter().map(|(module, name)| (format!("{module}:{module}"), table(name, rows))).collect()
}

/// yanglint's verdict on rows.
pub(crate) fn validate(models: &Path, rows: &Rows) -> Output {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let file = directory.path().join("config.json");
    std::fs::write(&file, document(rows).to_string()).expect("written");
    let mut command = Command::new("yanglint");
    command.arg("-p").arg(models).args(["-t", "config"]);
    let is_model = |path: &PathBuf| path.extension().is_some_and(|extension| extension == "yang");
    let all = std::fs::read_dir(models).expect("a directory").map(|entry| entry.expect("an entry").path());
    let mut all: Vec<PathBuf> = all.filter(is_model).collect();
    all.sort();
    command.args(all).arg(&file).output().expect("yanglint starts; `make setup` installs it")
}
