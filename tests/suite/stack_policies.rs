//! Stacks that hold data have a policy: whoever updates them, nothing that holds data is replaced or removed unless the
//! plan that was confirmed says so.

use std::collections::{BTreeMap, BTreeSet};

use kaws::local::Local;
use kaws::port::{Body, ChangeSetRequest, Cloud};

use crate::support::Cluster;

fn cloud(cluster: &Cluster) -> Local {
    let folder = cluster.path().join(".kaws/local");
    Local::new(folder, "111122223333", "eu-west-1", "aws", BTreeMap::new())
}

/// Somebody updates a stack with another template, without kaws; returns how that ended.
async fn update(cloud: &Local, stack: &str, template: String) -> (String, Vec<String>) {
    let there = cloud.stack(stack).await.unwrap().unwrap();
    let request = ChangeSetRequest {
        stack: stack.to_owned(),
        name: "by-hand".to_owned(),
        create: false,
        body: Body::Inline(template),
        previous: there.parameters.keys().cloned().collect::<BTreeSet<_>>(),
        parameters: BTreeMap::new(),
        tags: there.tags.clone(),
        role: None,
        keep_failed: false,
        revert_drift: false,
    };
    cloud.change_set(&request).await.unwrap().unwrap();
    cloud.execute(stack, "by-hand").await.unwrap();
    loop {
        let now = cloud.stack(stack).await.unwrap().unwrap();
        if !now.status.is_in_progress() {
            let events = cloud.events(stack, None).await.unwrap();
            return (now.status.to_string(), events.into_iter().filter_map(|e| e.reason).collect());
        }
    }
}

#[tokio::test]
async fn nobody_takes_data_away_by_another_template() {
    let cluster = Cluster::small("");
    assert_eq!(cluster.kaws(&["up", "--cloud", "local", "--yes"]).code, 0);
    let cloud = cloud(&cluster);
    let text = cloud.template("small-state").await.unwrap();
    let other = text.replace("kaws-111122223333-eu-west-1-small", "another-bucket");
    let (status, reasons) = update(&cloud, "small-state", other).await;
    assert_eq!(status, "UPDATE_ROLLBACK_COMPLETE");
    let denied = "Action denied by stack policy: Statement [#2] does not allow [Update:Replace] for resource [LogicalResourceId/IssuerBucket]";
    assert!(reasons.iter().any(|r| r == denied), "{reasons:?}");
}

#[tokio::test]
async fn what_was_allowed_by_name_goes_and_the_policy_is_whole_again() {
    let cluster = Cluster::small("etcd: {members: 3}\n");
    assert_eq!(cluster.kaws(&["up", "--cloud", "local", "--yes"]).code, 0);
    let policy = || {
        let file = cluster.path().join(".kaws/local/stacks/small-etcd.json");
        let stack: serde_json::Value =
            serde_json::from_str(&std::fs::read_to_string(file).unwrap()).unwrap();
        stack["policy"].as_str().unwrap().to_owned()
    };
    assert!(policy().contains("Etcd2Data"), "{}", policy());
    let path = cluster.path().join("cluster.yaml");
    let text = std::fs::read_to_string(&path).unwrap();
    std::fs::write(&path, text.replace("members: 3", "members: 1")).unwrap();
    let up = ["up", "--cloud", "local", "--yes", "--render"];
    let allowed = [&up[..], &["--allow-data-loss", "etcd"]].concat();
    let output = cluster.kaws(&allowed);
    assert_eq!(output.code, 0, "{}{}", output.out, output.err);
    assert!(policy().contains("Etcd0Data") && !policy().contains("Etcd2Data"), "{}", policy());
}
