//! What an API server counts of those who still ask for APIs that go.

/// The metric: one line for each API that was asked for since the API server started (Kubernetes 1.19).
const DEPRECATED: &str = "apiserver_requested_deprecated_apis{";

/// Returns the deprecated APIs that were asked for, each with the minor that no longer has it; sorted.
#[must_use]
pub fn deprecated_apis(metrics: &str) -> Vec<(String, String)> {
    let lines = metrics.lines().filter_map(|line| line.trim().strip_prefix(DEPRECATED));
    let mut all: Vec<(String, String)> = lines
        .filter_map(|line| {
            let (labels, count) = line.rsplit_once('}')?;
            let asked = count.trim().parse::<f64>().is_ok_and(|n| n > 0.0);
            let label = |name: &str| value(labels, name).unwrap_or_default();
            let removed = label("removed_release");
            let group = Some(label("group")).filter(|g| !g.is_empty());
            let group = group.map(|g| format!("{g}/")).unwrap_or_default();
            let api = format!("{group}{} {}", label("version"), label("resource"));
            (asked && !removed.is_empty()).then(|| (api, removed.to_owned()))
        })
        .collect();
    all.sort();
    all.dedup();
    all
}

/// The value of a label: no value of this metric holds a quote.
fn value<'a>(labels: &'a str, name: &str) -> Option<&'a str> {
    labels.split(',').find_map(|pair| {
        let (key, value) = pair.split_once('=')?;
        (key == name).then(|| value.trim_matches('"'))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_asked_for_and_goes_is_told_with_when() {
        let text = "# TYPE apiserver_requested_deprecated_apis gauge
apiserver_requested_deprecated_apis{group=\"flowcontrol.apiserver.k8s.io\",removed_release=\"1.38\",resource=\"flowschemas\",subresource=\"\",version=\"v1beta3\"} 1
apiserver_requested_deprecated_apis{group=\"\",removed_release=\"\",resource=\"componentstatuses\",subresource=\"\",version=\"v1\"} 1
apiserver_requested_deprecated_apis{group=\"a.b\",removed_release=\"1.40\",resource=\"cs\",subresource=\"\",version=\"v1\"} 0
";
        let api = "flowcontrol.apiserver.k8s.io/v1beta3 flowschemas".to_owned();
        assert_eq!(deprecated_apis(text), [(api, "1.38".to_owned())]);
        assert!(deprecated_apis("").is_empty());
    }
}
