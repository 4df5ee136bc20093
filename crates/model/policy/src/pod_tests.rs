use super::*;
use proptest::prelude::*;

fn labels(text: &str) -> PodSelector {
    PodSelector::new(None, None, Some(text)).unwrap_or_else(|refusal| panic!("{text}: {}", refusal.cause))
}

fn pod(labels: &[(&str, &str)]) -> PodFacts {
    let labels = labels.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
    PodFacts { namespace: "shop".into(), name: "web-1".into(), labels: Some(labels) }
}

/// The verdicts of `kubectl get pods --selector` (apimachinery/pkg/labels/selector_test.go, TestSelectorMatches).
#[test]
fn selectors_match_as_those_of_kubectl() {
    for (selector, of, expected) in [
        ("x=y", &[("x", "y")][..], true),
        ("x=y,z=w", &[("x", "y"), ("z", "w")], true),
        ("x!=y,z!=w", &[("x", "z"), ("z", "a")], true),
        ("notin=in", &[("notin", "in")], true),
        ("x", &[("x", "z")], true),
        ("!x", &[("y", "z")], true),
        ("x=z", &[], false),
        ("x=y", &[("x", "z")], false),
        ("x=y,z=w", &[("x", "w"), ("z", "w")], false),
        ("x!=y,z!=w", &[("x", "z"), ("z", "w")], false),
        ("x", &[("y", "z")], false),
        ("!x", &[("x", "z")], false),
        ("x!=y", &[], true),
        ("x notin (a)", &[], true),
        ("x in (a, b)", &[("x", "b")], true),
        ("x in (a, b)", &[("x", "c")], false),
        ("x in (a, b)", &[], false),
        ("x==a", &[("x", "a")], true),
        ("x=", &[("x", "")], true),
        ("x=", &[], false),
        ("x in (,a)", &[("x", "")], true),
        ("x,x!=a", &[("x", "b")], true),
        ("x,x!=a", &[], false),
        ("kubernetes.io/os=linux", &[("kubernetes.io/os", "linux")], true),
    ] {
        assert_eq!(labels(selector).matches(&pod(of)), expected, "{selector} {of:?}");
    }
}

#[test]
fn equal_selectors_have_one_spelling() {
    for (text, expected) in [
        ("app==web, app", "app=web"),
        (" tier in ( b,a , b ) ,app = web,! canary", "app=web,!canary,tier in (a,b)"),
        ("x notin (a),x!=b", "x notin (a,b)"),
        ("x,x notin (a)", "x,x!=a"),
        ("x in (a,b,c),x!=b", "x in (a,c)"),
        ("x notin (a),!x", "!x"),
        ("x=", "x="),
    ] {
        let selector = labels(text);
        assert_eq!(selector.to_string(), format!("labels={expected}"), "{text}");
        assert_eq!(labels(expected), selector, "{text}");
    }
    let all = PodSelector::new(Some("shop"), Some("web-*"), Some("a=b")).expect("a selector");
    assert_eq!(all.to_string(), "namespace=shop name=web-* labels=a=b");
}

#[test]
fn texts_that_are_no_selectors_are_refused() {
    for (text, cause) in [
        ("", "the selector `` is empty"),
        ("a=b,", "the selector `a=b,` has a comma too many"),
        ("a in (b", "the selector `a in (b` has a `(` without `)`"),
        ("a in b)", "the selector `a in b)` has a `)` too many"),
        ("a in ((b))", "the selector `a in ((b))` has a `(` too many"),
        ("a inn (b)", "the selector `a inn (b)` has `a inn` before a list"),
        ("a=b c", "the selector `a=b c` has the value `b c`, which no label has"),
        ("a=-b", "the selector `a=-b` has the value `-b`, which no label has"),
        ("=b", "the selector `=b` has the key ``, which no label has"),
        ("a b", "the selector `a b` has the key `a b`, which no label has"),
        ("Shop.io/a", "the selector `Shop.io/a` has the key `Shop.io/a`, which no label has"),
        ("a===b", "the selector `a===b` has the value `=b`, which no label has"),
        ("a>3", "the selector `a>3` compares numbers by `>`"),
        ("a=b,a=c", "no pod matches `a=b,a=c`: its requirements on `a` exclude each other"),
        ("a,!a", "no pod matches `a,!a`: its requirements on `a` exclude each other"),
    ] {
        assert_eq!(check_labels(text).unwrap_err().cause, cause);
    }
    for (refusal, cause, instead) in [
        (check_namespace("Shop"), "the namespace `Shop` has `S` in it", &["shop"][..]),
        (check_namespace("shop.a"), "the namespace `shop.a` has `.` in it", &[]),
        (check_namespace(""), "the namespace is empty", &[]),
        (check_name("web_1"), "the name of a pod `web_1` has `_` in it", &[]),
        (check_name("web 1"), "the name of a pod `web 1` has ` ` in it", &[]),
    ] {
        let refusal = refusal.unwrap_err();
        assert_eq!(refusal.cause, cause);
        assert_eq!(refusal.instead, instead);
    }
    assert!(check_namespace(&"a".repeat(64)).is_err() && check_namespace(&"a".repeat(63)).is_ok());
    assert!(PodSelector::new(None, None, None).is_err());
}

#[test]
fn globs_select_namespaces_and_names() {
    let selector = |namespace, name| PodSelector::new(namespace, name, None).expect("a selector");
    for (namespace, name, expected) in [
        (Some("shop"), None, true),
        (Some("sh*"), Some("web-?"), true),
        (Some("*"), None, true),
        (Some("bank"), None, false),
        (Some("shop"), Some("db-*"), false),
    ] {
        assert_eq!(selector(namespace, name).matches(&pod(&[])), expected, "{namespace:?} {name:?}");
    }
    let unknown = PodFacts { labels: None, ..pod(&[]) };
    assert!(selector(Some("shop"), None).matches(&unknown) && !labels("!canary").matches(&unknown));
    let (shop, bank) = (selector(Some("shop"), None), selector(Some("bank"), None));
    let web = PodSelector::new(Some("shop"), None, Some("app=web")).expect("a selector");
    assert!(!shop.overlaps(&bank) && shop.overlaps(&web) && shop.covers(&web) && !web.covers(&shop));
    assert!(selector(Some("*"), None).covers(&labels("a=b")) && !shop.covers(&labels("a=b")));
    assert_eq!(shop.common(&labels("a=b,c!=d")).to_string(), "namespace=shop labels=a=b,c!=d");
    assert_eq!(labels("a in (x,y)").common(&labels("a in (y,z)")).to_string(), "labels=a=y");
}

/// Selectors over two keys and three values, and each pod that they can distinguish.
fn selector() -> impl Strategy<Value = PodSelector> {
    let rule = prop::sample::select(vec!["K", "!K", "K=a", "K!=a", "K in (a,b)", "K notin (b,c)", "K=c", "K=b"]);
    let one = (prop::sample::select(vec!["x", "y"]), rule).prop_map(|(key, rule)| rule.replace('K', key));
    prop::collection::vec(one, 1..4)
        .prop_filter_map("a contradiction", |parts| PodSelector::new(None, None, Some(&parts.join(","))).ok())
}

fn pods() -> Vec<PodFacts> {
    let values = [None, Some("a"), Some("b"), Some("c"), Some("other")];
    let pair = |x: Option<&'static str>, y: Option<&'static str>| {
        let both: Vec<_> = [("x", x), ("y", y)].into_iter().filter_map(|(key, value)| Some((key, value?))).collect();
        pod(&both)
    };
    values.iter().flat_map(|x| values.iter().map(move |y| pair(*x, *y))).collect()
}

proptest! {
    #[test]
    fn overlap_and_covering_are_those_of_the_sets(a in selector(), b in selector()) {
        let both = pods().iter().filter(|pod| a.matches(pod) && b.matches(pod)).count();
        let of_b = pods().iter().filter(|pod| b.matches(pod)).count();
        prop_assert_eq!(a.overlaps(&b), both > 0);
        prop_assert_eq!(a.covers(&b), both == of_b);
        if both > 0 {
            let common = a.common(&b);
            prop_assert_eq!(pods().iter().filter(|pod| common.matches(pod)).count(), both);
        }
    }

    #[test]
    fn spelling_is_read_back_as_the_same_set(a in selector()) {
        let text = a.to_string();
        prop_assert_eq!(labels(text.strip_prefix("labels=").expect("labels")), a);
    }

    #[test]
    fn any_text_is_read_or_refused(text in "[a-c!=(),<> inot/.]{0,20}") {
        if let Ok(read) = PodSelector::new(None, None, Some(&text)) {
            let again = read.to_string();
            prop_assert_eq!(labels(again.strip_prefix("labels=").expect("labels")), read);
        }
    }
}

#[test]
fn texts_are_globs_and_values_without_keys() {
    let selector = PodSelector::new(Some("shop"), Some("web-*"), Some("app=web,tier in (a,b),canary,!urgent"));
    assert_eq!(selector.expect("sound").texts().collect::<Vec<_>>(), ["shop", "web-*", "web", "a", "b"]);
}

#[test]
fn selector_is_read_as_it_is_written() {
    for (namespace, name, labels) in [
        (Some("shop"), Some("web-*"), Some("app=web,tier in (a,b),!urgent")),
        (Some("labels"), None, Some("labels=namespace,x notin (a,b)")),
        (None, Some("name"), None),
    ] {
        let selector = PodSelector::new(namespace, name, labels).expect("sound");
        assert_eq!(selector.to_string().parse::<PodSelector>().as_ref(), Ok(&selector), "{selector}");
    }
    for text in ["", "shop", "namespace=shop pods=3", "namespace=Shop", "labels=a b"] {
        assert!(text.parse::<PodSelector>().is_err(), "{text}");
    }
}

#[test]
fn keys_are_those_of_labels() {
    let keys = |selector: &PodSelector| selector.label_keys().map(str::to_owned).collect::<Vec<_>>();
    assert_eq!(keys(&labels("tier in (a,b),!canary")), ["canary", "tier"]);
}
