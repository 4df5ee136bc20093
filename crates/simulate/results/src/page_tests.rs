//! Pages show the run, unknown values and omissions.

use super::*;
use crate::sample::{sample, sample_of_lab, sample_under_policy};
use weir_units::SimTime;

/// The page's text without its pictures and style: a line for each block and row.
pub(crate) fn words(html: &str) -> String {
    let (_, body) = html.split_once("<main>").unwrap();
    let mut text = String::new();
    let mut rest = body;
    while let Some((before, after)) = rest.split_once("<svg") {
        let (chart, after) = after.split_once("</svg>").unwrap();
        let title = chart.split_once("<title>").unwrap().1.split_once("</title>").unwrap().0;
        text.push_str(&format!("{before}[chart: {title}]"));
        rest = after;
    }
    text.push_str(rest);
    for cell in ["</th>", "</td>"] {
        text = text.replace(cell, " | ");
    }
    let mut plain = String::new();
    for part in text.split('<') {
        plain.push_str(part.split_once('>').map_or(part, |(_, text)| text));
    }
    let lines: Vec<&str> = plain.lines().map(str::trim_end).filter(|line| !line.is_empty()).collect();
    lines.join("\n")
}

#[test]
fn the_page_of_the_sample() {
    insta::assert_snapshot!("sample", words(&page(&sample(), "weir sim two-groups.yaml --seed 7").to_html()));
}

#[test]
fn services_come_first_under_a_policy() {
    let html = page(&sample_under_policy(), "weir sim small.yaml --seed 7").to_html();
    insta::assert_snapshot!("policy", words(&html));
    // After the services the page is that of the network.
    let network = page(&sample(), "weir sim small.yaml --seed 7").to_html();
    let (_, rest) = network.split_once("<h2>").unwrap();
    assert!(html.ends_with(rest), "{html}");
}

#[test]
fn a_run_in_the_lab_has_services_alone() {
    insta::assert_snapshot!("lab", words(&page(&sample_of_lab(), "weir lab small.yaml").to_html()));
}

#[test]
fn an_interrupted_run_without_anything_is_a_page_too() {
    let nothing = Results { scenario: "empty".to_owned(), simulated: SimTime::from_micros(20), ..Results::default() };
    insta::assert_snapshot!("empty", words(&page(&nothing, "weir sim empty.yaml").to_html()));
}

#[test]
fn flows_that_never_end_have_no_completion_times() {
    let mut results = sample();
    for flow in &mut results.flows {
        (flow.finished, flow.deadline) = (None, None);
    }
    // One of the two groups has one flow.
    results.flows.truncate(5);
    let html = page(&results, "weir sim two-groups.yaml").to_html();
    insta::assert_snapshot!("endless", words(&html));
    let (_, fairness) = html.split_once("<title>Fairness between flows</title>").unwrap();
    let (legend, _) = fairness.split_once("Jain").unwrap();
    assert!(legend.contains("all flows") && legend.contains("web") && !legend.contains("bulk"), "{legend}");
}

#[test]
fn many_links_and_long_series_do_not_blow_the_page_up() {
    let mut results = sample();
    let link = results.links[0].clone();
    results.links = (0..500).map(|i| crate::LinkRecord { name: format!("l{i}"), bytes: i, ..link.clone() }).collect();
    results.link_samples = (0..200_000u64)
        .map(|i| crate::LinkSample {
            at: SimTime::from_micros(i / 20 + 1),
            link: (i % 20) as u32,
            bytes: i % 977,
            capacity: 1250,
            queue: i % 1013,
            ..Default::default()
        })
        .collect();
    results.sample_interval = Some(SimTime::from_micros(1));
    let flow = results.flows[0];
    results.flows = (0..100_000)
        .map(|id| crate::FlowRecord { id, finished: Some(SimTime::from_picos(20_000_000 + id * id)), ..flow })
        .collect();
    let html = page(&results, "weir sim").to_html();
    assert!(html.len() < 800_000, "{} bytes", html.len());
    for text in ["The 50 busiest; 450 more are in links.csv.", "Link utilisation (6 of 20 watched links)"] {
        assert!(html.contains(text), "{text} is missing");
    }
    assert_eq!(html.matches("<td>l").count(), 50);
}
