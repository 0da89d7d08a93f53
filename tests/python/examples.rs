//! The helpers that come along as examples.

use std::path::{Path, PathBuf};

use aish::python::WorkerLimits;
use aish::python::workers::HelperWorkers;
use serde_json::{Value, json};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::{HelperHome, TestSession};

fn example(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("examples/helpers")
        .join(name)
}

async fn session(name: &str) -> TestSession {
    let home = HelperHome::new();
    let record = home.try_add_file(&example(name)).await.unwrap();
    assert!(record.problems.is_empty(), "{record:#?}");
    let (progress, printed) = mpsc::channel(4096);
    TestSession {
        home,
        workers: HelperWorkers::new(WorkerLimits::default()),
        progress,
        printed,
        cancel: CancellationToken::new(),
    }
}

#[tokio::test]
async fn table_is_summarized() {
    let session = session("table_summary.py").await;
    let table = session.home.work().join("t.csv");
    let text = "\u{feff}id;name;price;when;ok\n1;a;1.5;2024-01-01;yes\n2;b;;2024-02-03;no\n3;a;4;2023-01-01;yes\n4;b\n";
    std::fs::write(&table, text).unwrap();
    // Relative to the directory of the call.
    let text = session.text("csv_summary", r#"{"path": "t.csv"}"#).await;
    let summary: Value = serde_json::from_str(&text).unwrap();
    let expected = json!({
        "rows": 4,
        "rows_with_another_number_of_cells": 1,
        "columns": [
            {"name": "id", "type": "integer", "missing": 0, "min": 1, "max": 4, "mean": 2.5},
            {"name": "name", "type": "text", "missing": 0, "distinct": 2, "most_common": [["a", 2], ["b", 2]]},
            {"name": "price", "type": "number", "missing": 2, "min": 1.5, "max": 4.0, "mean": 2.75},
            {"name": "when", "type": "date", "missing": 1, "min": "2023-01-01", "max": "2024-02-03", "distinct": 3,
             "most_common": [["2024-01-01", 1], ["2024-02-03", 1], ["2023-01-01", 1]]},
            {"name": "ok", "type": "boolean", "missing": 1, "distinct": 2, "most_common": [["yes", 2], ["no", 1]]},
        ],
    });
    assert_eq!(summary, expected);
    let tools = session.home.catalog().definitions();
    assert!(tools[0].annotations.reads_only());
    let result = session
        .call("csv_summary", r#"{"path": "gone.csv"}"#)
        .await
        .unwrap();
    assert!(
        result.is_error && result.text.contains("gone.csv"),
        "{result:?}"
    );
}

#[tokio::test]
async fn units_are_calculated() {
    let session = session("units.py").await;
    for (expression, result) in [
        ("3 km / 20 min to km/h", "9 km/h"),
        ("2 * 40 GiB / (100 Mbit/s) to min", "114.532461227 min"),
        ("20 degC to degF", "68 degF"),
        ("5 ft + 3 inch to cm", "160.02 cm"),
        ("sqrt(2 m^2 * 8)", "4 m"),
        ("1.5e-3 km to m", "1.5 m"),
        ("10 kg m s^-2 to N", "10 N"),
        ("50% * 3 kg", "1.5 kg"),
        ("2^10", "1024"),
    ] {
        let arguments = json!({"expression": expression}).to_string();
        assert_eq!(session.text("calculate", &arguments).await, result);
    }
    for (expression, reason) in [
        ("3 km to s", "cannot be converted"),
        ("1 m + 1 s", "cannot be added"),
        ("__import__('os')", "only numbers, units"),
        ("9^9^9", "OverflowError"),
        ("3 furlong", "furlong is not a known unit"),
    ] {
        let arguments = json!({"expression": expression}).to_string();
        let result = session.call("calculate", &arguments).await.unwrap();
        assert!(
            result.is_error && result.text.contains(reason),
            "{expression}: {result:?}"
        );
    }
}

#[tokio::test]
#[ignore = "installs matplotlib from the package index; ./test.sh runs it"]
async fn plot_is_drawn_with_matplotlib() {
    let session = session("plot.py").await;
    let record = aish::python::registry::HelperRegistry::load(&session.home.paths).unwrap();
    let locked = &record.files[0].locked;
    assert!(
        locked.iter().any(|line| line.starts_with("matplotlib==3.")),
        "{locked:?}"
    );
    let arguments = json!({
        "series": {"a": [1, 4, 9], "b": [2, 3]}, "labels": ["x", "y", "z"], "title": "T", "save_to": "plot.png",
    });
    for kind in ["line", "scatter", "bar"] {
        let mut arguments = arguments.clone();
        arguments["kind"] = kind.into();
        let result = session.call("plot", &arguments.to_string()).await.unwrap();
        assert!(!result.is_error, "{result:?}");
        assert_eq!(result.images[0].mime, "image/png");
        assert!(result.text.contains("saved to /"), "{}", result.text);
    }
    let saved = std::fs::read(session.home.work().join("plot.png")).unwrap();
    assert!(saved.starts_with(b"\x89PNG") && saved.len() > 5000);
}
