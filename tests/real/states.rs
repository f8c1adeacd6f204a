//! States that stacks are stuck in, on the mock server: what the real client asks of CloudFormation to get out.

use serde_json::json;

use crate::mock::{Call, Folder, Mock};
use crate::{program, root, shown};

/// What was asked of CloudFormation that changes something, each with the resources that it names.
fn asked(calls: &[Call]) -> Vec<String> {
    let named = |call: &Call| {
        ["ResourcesToSkip", "RetainResources", "OnStackFailure", "DeploymentMode"]
            .iter()
            .filter(|name| !call.parameters[**name].is_null())
            .map(|name| format!(" {name}={}", call.parameters[*name]))
            .collect::<String>()
    };
    let of_stacks = |call: &&Call| {
        call.writes()
            && (call.action.contains("Stack")
                || call.action.contains("ChangeSet")
                || call.action.contains("Rollback"))
    };
    calls.iter().filter(of_stacks).map(|c| format!("{}{}", c.action, named(c))).collect()
}

struct World {
    mock: Mock,
    folder: Folder,
}

impl World {
    /// A cluster that is up.
    fn up() -> Self {
        let mock = Mock::start();
        let folder = Folder::of(&root().join("examples/mixed/cluster.yaml"));
        folder.set_secrets(&mock.0.address);
        folder.fine(&mock.0.address, &["up", "--yes"]);
        mock.calls();
        Self { mock, folder }
    }

    fn fail(&self, resource: &str, on: &str) {
        let fault = json!({"resource": resource, "reason": format!("{on} of it fails"), "on": on});
        self.mock.0.ask("POST", "/mock/fail", &fault);
    }

    /// A pool of another size of machines: its launch template changes, and its group.
    fn edit(&self) {
        let text = std::fs::read_to_string(self.folder.path().join("cluster.yaml")).unwrap();
        let line = text.lines().find(|l| l.contains("instanceTypes: [")).unwrap().to_owned();
        let (head, _) = line.split_once("instanceTypes:").unwrap();
        self.folder.edit(&line, &format!("{head}instanceTypes: [m7i.8xlarge]"));
        self.folder.fine(&self.mock.0.address, &["render"]);
    }

    fn run(&self, arguments: &[&str]) -> (i32, String, Vec<String>) {
        let output = self.folder.kaws(&self.mock.0.address, arguments);
        (output.status.code().unwrap(), shown(&output), asked(&self.mock.calls()))
    }

    /// The first pool: the one that `edit` changes.
    fn pool(&self) -> String {
        let text = std::fs::read_to_string(self.folder.path().join("cluster.yaml")).unwrap();
        let after = text.split_once("nodePools:").unwrap().1;
        let line = after.lines().find(|l| l.trim().ends_with(':') || l.contains(": {")).unwrap();
        format!("pool-{}", line.trim().split(':').next().unwrap())
    }

    fn status(&self, stack: &str) -> String {
        let stacks = self.mock.stacks();
        let found = stacks.iter().find(|s| s["tags"]["kaws/stack"] == stack);
        found.map(|s| s["status"].as_str().unwrap().to_owned()).unwrap_or_default()
    }
}

const CHANGED: [&str; 2] = ["CreateChangeSet", "ExecuteChangeSet"];

#[test]
fn a_rollback_that_failed_goes_on_and_what_cannot_go_back_is_skipped_by_name() {
    let world = World::up();
    let pool = world.pool();
    let (group, template) = (format!("{pool}/Group"), format!("{pool}/LaunchTemplate"));
    world.edit();
    world.fail(&group, "update");
    world.fail(&template, "rollback");
    let (code, said, asked) = world.run(&["up", "--yes"]);
    assert_eq!((code, asked.as_slice()), (4, &CHANGED.map(str::to_owned)[..]), "{said}");
    assert_eq!(world.status(&pool), "UPDATE_ROLLBACK_FAILED");
    assert!(said.contains(&format!("--leave {template}")), "{said}");
    // A plan only says so.
    let (code, said, asked) = world.run(&["plan"]);
    assert_eq!((code, asked.len()), (1, 0), "{said}");
    assert!(said.contains("fatal[deploy/stack-state]"), "{said}");
    assert!(said.contains("rollback of it fails"), "{said}");
    let (code, said, asked) = world.run(&["status", "--exit-code"]);
    assert_eq!((code, asked.len()), (2, 0), "{said}");
    assert!(said.contains(&format!("{pool} is stuck")), "{said}");
    // It fails again, and then it is skipped.
    world.fail(&template, "rollback");
    let (code, said, asked) = world.run(&["up", "--yes"]);
    assert_eq!((code, asked), (4, vec!["ContinueUpdateRollback".to_owned()]), "{said}");
    let (code, said, asked) = world.run(&["up", "--yes", "--leave", &template]);
    assert_eq!(code, 0, "{said}");
    assert_eq!(asked[0], "ContinueUpdateRollback ResourcesToSkip=[\"LaunchTemplate\"]");
    assert_eq!(asked[1..], CHANGED);
    assert_eq!(world.status(&pool), "UPDATE_COMPLETE");
    let (code, said, asked) = world.run(&["up", "--yes"]);
    assert!(code == 0 && asked.is_empty() && said.contains("no changes"), "{said}");
}

#[test]
fn a_kept_failure_is_rolled_back_first() {
    let world = World::up();
    let pool = world.pool();
    world.edit();
    world.fail(&format!("{pool}/Group"), "update");
    let (code, said, asked) = world.run(&["up", "--yes", "--keep-failed"]);
    assert_eq!(code, 4, "{said}");
    assert_eq!(asked[0], "CreateChangeSet OnStackFailure=\"DO_NOTHING\"");
    assert_eq!(world.status(&pool), "UPDATE_FAILED");
    let (code, said, asked) = world.run(&["up", "--yes"]);
    assert_eq!(code, 0, "{said}");
    assert_eq!(asked, ["RollbackStack", "CreateChangeSet", "ExecuteChangeSet"]);
    assert_eq!(world.status(&pool), "UPDATE_COMPLETE");
}

#[test]
fn where_something_is_replaced_a_failure_is_not_kept() {
    // CloudFormation refuses to keep a failure of an update that replaces something.
    let world = World::up();
    world.folder.edit("nat: single", "nat: single\n  privateZone: {name: other.internal}");
    world.folder.fine(&world.mock.0.address, &["render"]);
    let arguments = ["up", "--yes", "--keep-failed"];
    let output = world.folder.kaws(&world.mock.0.address, &arguments);
    assert_eq!(output.status.code(), Some(0), "{}", shown(&output));
    let calls = world.mock.calls();
    let kept = |short: &str| -> Vec<bool> {
        let name = format!("mixed-{short}");
        let sets = calls.iter().filter(|call| call.action == "CreateChangeSet");
        let own = sets.filter(|set| set.parameters["StackName"] == *name);
        own.map(|set| set.parameters["OnStackFailure"] == "DO_NOTHING").collect()
    };
    // The zone is made anew, and the old one goes last.
    assert!(!kept("network")[0]);
    assert_eq!(kept(&world.pool()), [true]);
}

#[test]
fn what_machines_reported_and_could_not_be_read_is_no_silence() {
    let world = World::up();
    let pool = world.pool();
    world.edit();
    world.fail(&format!("{pool}/Group"), "update");
    let denied = json!({"action": "ListObjectsV2", "code": "AccessDenied", "status": 403, "count": 50, "prefix": "reports/"});
    world.mock.0.ask("POST", "/mock/faults", &denied);
    let (code, said, _) = world.run(&["up", "--yes"]);
    assert_eq!(code, 4, "{said}");
    assert!(said.contains("update of it fails"), "{said}");
    assert!(said.contains("What its machines reported could not be read"), "{said}");
}

#[test]
fn what_cannot_be_deleted_stays_where_it_is_named() {
    let world = World::up();
    let pool = world.pool();
    let group = format!("{pool}/Group");
    world.fail(&group, "delete");
    let (code, said, _) = world.run(&["destroy", "--yes"]);
    assert_eq!((code, world.status(&pool).as_str()), (4, "DELETE_FAILED"), "{said}");
    assert!(said.contains(&format!("--leave {group}")), "{said}");
    world.fail(&group, "delete");
    let (code, said, asked) = world.run(&["destroy", "--yes", "--leave", &group]);
    assert_eq!((code, world.status(&pool).as_str()), (0, ""), "{said}");
    let kept = "DeleteStack RetainResources=[\"Group\"]".to_owned();
    assert!(asked.contains(&kept), "{asked:?}");
}

#[test]
fn what_early_validation_finds_is_told_with_its_owner_before_anything_is_made() {
    let world = World::up();
    let pool = world.pool();
    world.edit();
    world.fail(&format!("{pool}/Group"), "validation");
    let (code, said, asked) = world.run(&["up", "--yes"]);
    assert_eq!(
        (code, asked),
        (1, vec!["CreateChangeSet".into(), "DeleteChangeSet".into()]),
        "{said}"
    );
    assert!(said.contains("fatal[deploy/invalid-template]"), "{said}");
    let whose = format!("{pool}/Group, of node-pools: validation of it fails");
    assert!(said.contains(&whose), "{said}");
    assert!(said.contains("/Resources/Group/Properties"), "{said}");
    // Where the rights to ask for it are missing, the change set's own reason is told.
    world.fail(&format!("{pool}/Group"), "validation");
    let denied = json!({"action": "DescribeEvents", "code": "AccessDenied", "status": 403});
    world.mock.0.ask("POST", "/mock/faults", &denied);
    let (code, said, _) = world.run(&["up", "--yes"]);
    assert_eq!(code, 4, "{said}");
    assert!(said.contains("AWS::EarlyValidation::PropertyValidation"), "{said}");
    let (code, said, _) = world.run(&["up", "--yes"]);
    assert_eq!(code, 0, "{said}");
}

#[test]
fn what_was_changed_by_hand_is_told_with_its_owner() {
    let world = World::up();
    let pool = world.pool();
    let change = json!({"resource": format!("{pool}/Group"), "path": "/MaxSize", "expected": "3", "actual": "7"});
    world.mock.0.ask("POST", "/mock/drift", &change);
    let (code, said, asked) = world.run(&["status", "--drift", "--exit-code"]);
    assert_eq!(code, 2, "{said}");
    assert!(said.contains(&format!("{pool}/Group    node-pools")), "{said}");
    assert!(said.contains("MaxSize                  3 → 7"), "{said}");
    assert!(asked.iter().all(|call| call == "DetectStackDrift"), "{asked:?}");
    assert!(asked.len() >= 6, "{asked:?}");
    // Where it cannot be looked for, that is told in its place.
    let denied =
        json!({"action": "DetectStackDrift", "code": "AccessDenied", "status": 403, "count": 50});
    world.mock.0.ask("POST", "/mock/faults", &denied);
    let (code, said, _) = world.run(&["status", "--drift"]);
    assert_eq!(code, 0, "{said}");
    assert!(said.contains(&format!("{pool}: not all of it could be looked at")), "{said}");
}

#[test]
fn what_was_changed_by_hand_is_put_back_where_that_is_asked_for() {
    let world = World::up();
    let pool = world.pool();
    let change = json!({"resource": format!("{pool}/Group"), "path": "/MaxSize", "expected": "3", "actual": "7"});
    world.mock.0.ask("POST", "/mock/drift", &change);
    let (code, said, _) = world.run(&["plan", "--drift"]);
    assert_eq!(code, 0, "{said}");
    assert!(said.contains("stays until the same setting changes, or --revert-drift"), "{said}");
    let (code, said, _) = world.run(&["plan", "--revert-drift", "--save", "plan.json"]);
    assert_eq!(code, 0, "{said}");
    assert!(
        said.contains("is put back") && said.contains("up --plan plan.json --revert-drift"),
        "{said}"
    );
    // A saved plan is for the same words only.
    let (code, said, _) = world.run(&["up", "--plan", "plan.json"]);
    assert_eq!(code, 1, "{said}");
    let (code, said, asked) = world.run(&["up", "--plan", "plan.json", "--revert-drift"]);
    assert_eq!(code, 0, "{said}");
    let set = "CreateChangeSet DeploymentMode=\"REVERT_DRIFT\"";
    assert!(asked.contains(&set.to_owned()), "{asked:?}");
    assert!(asked.contains(&"ExecuteChangeSet".to_owned()), "{asked:?}");
    let (_, said, _) = world.run(&["status", "--drift"]);
    assert!(!said.contains("MaxSize"), "{said}");
}

#[test]
fn what_somebody_else_has_under_way_is_waited_for() {
    let world = World::up();
    let pool = world.pool();
    let name = world
        .mock
        .stacks()
        .iter()
        .find(|s| s["tags"]["kaws/stack"] == pool.as_str())
        .unwrap()["name"]
        .clone();
    world.mock.delay(1.0);
    let (sign, url) =
        ("aws:amz:us-west-2:cloudformation", format!("http://{}/", world.mock.0.address));
    let form =
        format!("Action=DeleteStack&Version=2010-05-15&StackName={}", name.as_str().unwrap());
    let said = program(
        "curl",
        &["-sSf", "--user", "test:test", "--aws-sigv4", sign, "-d", &form, &url],
        &root(),
    );
    assert!(said.status.success(), "{}", shown(&said));
    assert_eq!(world.status(&pool), "DELETE_IN_PROGRESS");
    let (code, said, _) = world.run(&["plan"]);
    assert_eq!(code, 0, "{said}");
    let text = said.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(text.contains(&format!("Somebody is changing {pool} (DELETE_IN_PROGRESS)")), "{said}");
    let (code, said, asked) = world.run(&["up", "--yes"]);
    assert_eq!(code, 0, "{said}");
    assert!(said.contains("DELETE_IN_PROGRESS"), "{said}");
    // Only then it was planned, and made anew.
    assert_eq!(asked, ["CreateChangeSet", "ExecuteChangeSet"], "{said}");
    assert_eq!(world.status(&pool), "CREATE_COMPLETE");
}

#[test]
fn stacks_that_hold_data_have_a_policy() {
    let world = World::up();
    let policy = |short: &str| {
        let all = world.mock.stacks();
        let stack = all.iter().find(|s| s["tags"]["kaws/stack"] == short).unwrap();
        stack["policy"].as_str().unwrap().to_owned()
    };
    assert!(policy("state").contains("LogicalResourceId/Key"), "{}", policy("state"));
    assert!(policy("etcd").contains("LogicalResourceId/Etcd0Data"), "{}", policy("etcd"));
    assert_eq!(policy("network"), "");
}

#[test]
fn a_creation_that_was_kept_is_taken_back_and_made_anew() {
    let mock = Mock::start();
    let folder = Folder::of(&root().join("examples/minimal/cluster.yaml"));
    let world = World { mock, folder };
    world.fail("state/KeyAlias", "create");
    let (code, said, _) = world.run(&["up", "--yes", "--keep-failed"]);
    assert_eq!((code, world.status("state").as_str()), (4, "CREATE_FAILED"), "{said}");
    let (code, said, asked) = world.run(&["up", "--yes"]);
    assert_eq!(code, 0, "{said}");
    assert_eq!(asked[..4], ["RollbackStack", "DeleteStack", "CreateChangeSet", "ExecuteChangeSet"]);
    assert_eq!(world.status("state"), "CREATE_COMPLETE");
}
