//! The cluster as a controller last reported it: what answers where the API server cannot be reached from here.
//!
//! The report is lines of words apart by tabs. Not here: who writes it, which is a program on each controller
//! (`plugins/control-plane`).

use async_trait::async_trait;
use serde_json::{Value, json};

use crate::port::{
    Answer, Cloud, CloudError, Cluster, DeprecatedApi, ErrorKind, Eviction, Keeper, Node, Pod,
    Pods, Release,
};

/// Where the report lies in the state bucket.
const KEY: &str = "reports/controller/cluster.tsv";
/// A report is written every two minutes. One that is older than this, in seconds, says nothing of now.
const FRESH: u64 = 600;

/// A cluster as it was a moment ago. It cannot be changed through this.
#[derive(Debug)]
pub struct Reported {
    lines: Vec<Vec<String>>,
    whose: String,
}

impl Reported {
    /// Reads the newest report, if there is one that is fresh; `now` is in seconds since 1970.
    ///
    /// # Errors
    /// The cloud's.
    pub async fn newest(cloud: &dyn Cloud, bucket: &str, now: u64) -> Answer<Option<Self>> {
        let Some(object) = cloud.get(bucket, KEY).await? else { return Ok(None) };
        Ok(Self::read(&String::from_utf8_lossy(&object.bytes), now))
    }

    /// Reads a report; none where it was cut off, or is older than [`FRESH`].
    fn read(text: &str, now: u64) -> Option<Self> {
        let words = |line: &str| line.split('\t').map(str::to_owned).collect();
        let lines: Vec<Vec<String>> = text.lines().map(words).collect();
        let [word, time, by] = lines.first()?.as_slice() else { return None };
        let whole = word == "at" && lines.last().is_some_and(|l| l[0] == "end");
        let at = humantime::parse_rfc3339(time).ok()?;
        let age = now.checked_sub(at.duration_since(std::time::UNIX_EPOCH).ok()?.as_secs());
        // Clocks differ a little: a report of a moment later is as fresh as can be.
        let age = age.unwrap_or(0);
        let whose = format!("{by} reported {age} s ago");
        (whole && age <= FRESH).then_some(Self { lines, whose })
    }

    /// The fields of the lines that begin with a word; what is missing at the end is empty.
    fn about<'a>(&'a self, word: &'a str) -> impl Iterator<Item = Fields<'a>> {
        self.lines.iter().filter(move |line| line[0] == word).map(|line| Fields(&line[1..]))
    }
}

/// The fields of a line.
struct Fields<'a>(&'a [String]);

impl Fields<'_> {
    fn get(&self, at: usize) -> &str {
        self.0.get(at).map_or("", String::as_str)
    }

    fn text(&self, at: usize) -> String {
        self.get(at).to_owned()
    }
}

fn node(of: &Fields<'_>) -> Node {
    let ready = of.get(4) == "True" && of.get(5) != "True";
    let why = match of.get(6) {
        "" if ready => String::new(),
        "" => "its kubelet has not said anything".to_owned(),
        text => text.to_owned(),
    };
    Node {
        name: of.text(0),
        ready,
        why,
        cordoned: of.get(1) == "true",
        version: of.get(2).trim_start_matches('v').to_owned(),
        zone: of.text(3),
    }
}

fn pod(of: &Fields<'_>) -> Pod {
    Pod {
        namespace: of.text(0),
        name: of.text(1),
        node: of.text(2),
        phase: of.text(3),
        ready: of.get(4) == "True",
        critical: true,
        keeper: Keeper::Workload,
    }
}

fn not_from_here<T>(what: &str) -> Answer<T> {
    let text = "only the API server itself can do that, and it cannot be reached from here";
    Err(CloudError::new(what, ErrorKind::Unavailable, text))
}

#[async_trait]
impl Cluster for Reported {
    fn reported(&self) -> Option<String> {
        Some(self.whose.clone())
    }

    async fn failing(&self) -> Answer<Vec<String>> {
        Ok(self.about("failing").map(|of| of.text(0)).collect())
    }

    async fn version(&self) -> Answer<String> {
        let said = self.about("version").next().map(|of| of.text(0));
        said.map_or_else(|| not_from_here("GET /version"), Ok)
    }

    async fn nodes(&self) -> Answer<Vec<Node>> {
        // An API server that is not ready was asked nothing else.
        if self.about("failing").next().is_some() {
            return not_from_here("list nodes");
        }
        Ok(self.about("node").map(|of| node(&of)).collect())
    }

    async fn pods(&self, which: &Pods) -> Answer<Vec<Pod>> {
        match which {
            Pods::Critical => Ok(self.about("pod").map(|of| pod(&of)).collect()),
            Pods::On(_) => not_from_here("list pods"),
        }
    }

    async fn status(&self, kind: &str, namespace: &str, name: &str) -> Answer<Option<Value>> {
        let this =
            |of: &Fields<'_>| of.get(0) == kind && of.get(1) == namespace && of.get(2) == name;
        let Some(of) = self.about("object").find(this) else {
            return not_from_here(&format!("get {kind} {name}"));
        };
        // What has no id is not there; not everything that is there has a generation.
        if of.get(3).is_empty() {
            return Ok(None);
        }
        let mut status: Value = serde_json::from_str(of.get(5)).unwrap_or_else(|_| json!({}));
        if let (Some(map), Ok(generation)) = (status.as_object_mut(), of.get(4).parse::<u64>()) {
            map.insert("generation".to_owned(), generation.into());
        }
        Ok(Some(status))
    }

    async fn ready_addresses(&self, namespace: &str, service: &str) -> Answer<usize> {
        let this = |of: &Fields<'_>| of.get(0) == namespace && of.get(1) == service;
        let found = self.about("service").find(this).and_then(|of| of.get(2).parse().ok());
        found.map_or_else(|| not_from_here("list endpointslices"), Ok)
    }

    async fn releases(&self) -> Answer<Vec<Release>> {
        let rows = self.about("release").map(|of| {
            let release = Release { namespace: of.text(0), name: of.text(1), status: of.text(2) };
            (release, of.get(3).parse().unwrap_or_default())
        });
        Ok(Release::newest(rows))
    }

    async fn deprecated(&self) -> Answer<Vec<DeprecatedApi>> {
        let text: Vec<String> = self.about("metric").map(|of| of.text(0)).collect();
        Ok(DeprecatedApi::counted(&text.join("\n")))
    }

    async fn cordon(&self, node: &str, _on: bool) -> Answer<()> {
        not_from_here(&format!("patch node {node}"))
    }

    async fn evict(&self, pod: &Pod) -> Answer<Eviction> {
        not_from_here(&format!("evict {}", pod.full_name()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::FutureExt as _;

    const REPORT: &str = "at\t2026-11-20T12:00:00Z\ti-1\nversion\t1.36.3\n\
        node\ti-1\t\tv1.36.3\teu-west-1a\tTrue\t\tready\nnode\ti-2\ttrue\tv1.36.3\teu-west-1b\tTrue\tTrue\tready\n\
        pod\tkube-system\tkube-apiserver-i-1\ti-1\tRunning\tTrue\n\
        release\tdex\tdex\tsuperseded\t1\nrelease\tdex\tdex\tdeployed\t2\n\
        object\tDeployment\tdex\tdex\tu-1\t3\t{\"observedGeneration\":3}\nobject\tDeployment\tdex\tnone\t\n\
        service\tkube-system\tkube-dns\t2\nend\n";
    const THEN: u64 = 1_795_176_000;

    fn now<T>(answer: impl std::future::Future<Output = Answer<T>>) -> Answer<T> {
        answer.now_or_never().unwrap()
    }

    #[test]
    fn a_report_answers_as_the_api_server_would() {
        let cluster = Reported::read(REPORT, THEN + 60).unwrap();
        assert_eq!(cluster.reported().unwrap(), "i-1 reported 60 s ago");
        assert!(now(cluster.failing()).unwrap().is_empty());
        assert_eq!(now(cluster.version()).unwrap(), "1.36.3");
        let nodes = now(cluster.nodes()).unwrap();
        assert!(nodes[0].ready && !nodes[1].ready && nodes[1].cordoned);
        assert!(now(cluster.pods(&Pods::Critical)).unwrap()[0].ready);
        assert_eq!(now(cluster.releases()).unwrap()[0].status, "deployed");
        let status = now(cluster.status("Deployment", "dex", "dex")).unwrap().unwrap();
        assert_eq!(status, json!({"observedGeneration": 3, "generation": 3}));
        assert_eq!(now(cluster.status("Deployment", "dex", "none")).unwrap(), None);
        assert_eq!(now(cluster.ready_addresses("kube-system", "kube-dns")).unwrap(), 2);
        // What nobody looked at is not known to be missing.
        assert!(now(cluster.status("Deployment", "other", "dex")).is_err());
        assert!(now(cluster.cordon("i-1", true)).is_err());
    }

    #[test]
    fn an_api_server_that_is_not_ready_was_asked_nothing_else() {
        let report = "at\t2026-11-20T12:00:00Z\ti-1\nversion\t1.36.3\nfailing\tetcd\nend\n";
        let cluster = Reported::read(report, THEN).unwrap();
        assert_eq!(now(cluster.failing()).unwrap(), ["etcd"]);
        assert!(now(cluster.nodes()).is_err());
    }

    #[test]
    fn what_was_cut_off_or_is_old_says_nothing() {
        assert!(Reported::read(REPORT, THEN + FRESH + 1).is_none());
        assert!(Reported::read(REPORT.trim_end().trim_end_matches("end"), THEN).is_none());
        assert!(Reported::read("", THEN).is_none());
        assert!(Reported::read("at\tsoon\ti-1\nend\n", THEN).is_none());
    }
}
