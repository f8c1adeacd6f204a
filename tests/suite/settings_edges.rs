//! `false`, `0`, `""`, null and empty maps and lists as settings: each does what it says, in declared and
//! in native plugins.

use crate::support::Cluster;

const SETTINGS: &str = "
nodes: [controller]
settings:
  properties:
    flag: {type: boolean, default: true}
    number: {type: integer, default: 7}
    text: {type: string, default: words}
    list: {type: array, items: {type: string}, default: [a]}
    map: {type: object, default: {k: v}}
    none: {type: string, format: file}
initialise:
  values:
    edges:
      flag: \"{{settings.flag}}\"
      number: \"{{settings.number}}\"
      text: \"{{settings.text}}\"
      list: \"{{settings.list}}\"
      map: \"{{settings.map}}\"
      none: \"{{settings.none}}\"
      deep: \"{{settings.none.content}}\"
      whenFlag: {$when: settings.flag, x: 1}
      whenNumber: {$when: settings.number, x: 1}
      whenText: {$when: settings.text, x: 1}
      whenList: {$when: settings.list, x: 1}
      whenMap: {$when: settings.map, x: 1}
      whenNone: {$when: settings.none, x: 1}
";

fn values(settings: &str) -> String {
    let cluster = Cluster::small(&format!("plugins: {{edges: {{settings: {settings}}}}}\n"));
    cluster.plugin("edges", SETTINGS);
    let run = cluster.render();
    let mut lines = Vec::new();
    run.rendered.model.walk(&["values", "edges"], &mut |path, entity| {
        lines.push(format!("{} = {}", path[2], entity.body.to_value()));
    });
    lines.join("\n")
}

#[test]
fn defaults_count_where_nothing_is_written_and_where_null_is() {
    let expected = values("{}");
    insta::assert_snapshot!(expected, @r#"
    flag = true
    list = ["a"]
    map = {"k":"v"}
    number = 7
    text = "words"
    whenFlag = {"x":1}
    whenList = {"x":1}
    whenMap = {"x":1}
    whenNumber = {"x":1}
    whenText = {"x":1}
    "#);
    assert_eq!(
        values("{flag: null, number: null, text: null, list: null, map: null, none: null}"),
        expected
    );
}

#[test]
fn false_nothing_and_empty_beat_any_default() {
    insta::assert_snapshot!(values("{flag: false, number: 0, text: '', list: [], map: {}}"), @r#"
    flag = false
    list = []
    map = {}
    number = 0
    text = ""
    "#);
}

#[test]
fn a_users_map_replaces_the_default_whole() {
    assert!(values("{map: {other: 1}, list: [b]}").contains("map = {\"other\":1}"));
}

#[test]
fn native_plugins_see_the_same() {
    let pools = |extra: &str| {
        let text = crate::support::MINIMAL.replace(
            "other: {instanceTypes: [m7i.xlarge]}",
            &format!("other: {{instanceTypes: [m7i.xlarge]{extra}}}"),
        );
        let run = Cluster::new(&text).render();
        String::from_utf8_lossy(&run.rendered.artifacts["stacks/pool-other.yaml"].bytes)
            .into_owned()
    };
    let plain = pools("");
    assert_eq!(
        pools(", labels: {}, taints: {}, tags: {}, spot: null, autoscale: null, zones: null"),
        plain
    );
    assert!(plain.contains("cluster-autoscaler/enabled"));
    assert!(!pools(", autoscale: false").contains("cluster-autoscaler"));
    let zero = pools(", size: {min: 0, max: 0}");
    assert!(
        zero.contains("MinSize: \"0\"")
            && zero.contains("MaxSize: \"0\"")
            && !zero.contains("CreationPolicy")
    );
    assert!(
        pools(", spot: {onDemandBase: 0, onDemandPercentage: 0}")
            .contains("OnDemandPercentageAboveBaseCapacity: 0")
    );
}

#[test]
fn null_inside_a_text_is_refused() {
    let cluster = Cluster::small("plugins: {edges: {}}\n");
    cluster.plugin("edges", "nodes: [controller]\nsettings: {properties: {none: {type: string}}}\ninitialise: {machines: {nodes: {files: {/etc/x: {content: \"a {{settings.none}} b\"}}}}}\n");
    let text = cluster.fatal();
    assert!(text.contains("fatal[template/null]: `settings.none` is null"), "{text}");
}

#[test]
fn braces_of_others_are_safe() {
    let cluster = Cluster::small(
        "plugins: {edges: {settings: {text: '{{ .Values.x }} {{settings.text}}'}}}\n",
    );
    cluster.plugin("edges", "nodes: [controller]\nsettings: {properties: {text: {type: string}}}\ninitialise:\n  values:\n    edges:\n      data: \"{{settings.text}}\"\n      literal: {$literal: \"{{ .Values.y }}\"}\n      dynamic: \"{{resolve:ssm:/a/b}}\"\n      escaped: \"\\\\{{ .Values.z }} {{cluster.name}}\"\n");
    let run = cluster.render();
    let value =
        |key: &str| run.rendered.model.entity(&["values", "edges", key]).unwrap().body.to_value();
    assert_eq!(value("data"), "{{ .Values.x }} {{settings.text}}");
    assert_eq!(value("literal"), "{{ .Values.y }}");
    assert_eq!(value("dynamic"), "{{resolve:ssm:/a/b}}");
    assert_eq!(value("escaped"), "{{ .Values.z }} small");
}

#[test]
fn settings_of_a_pool_count_for_that_pool() {
    let text = crate::support::MINIMAL.replace(
        "other: {instanceTypes: [m7i.xlarge]}",
        "other: {instanceTypes: [m7i.xlarge], plugins: {edges: {settings: {text: pool}}}}",
    );
    let cluster = Cluster::new(&format!("{text}plugins: {{edges: {{settings: {{text: all}}}}}}\n"));
    cluster.plugin("edges", "nodes: [worker]\nsettings: {properties: {text: {type: string}}}\ninitialise:\n  machines: {nodes: {files: {/etc/x: {content: \"{{settings.text}} {{machine.pool}}\"}}}}\n");
    let run = cluster.render();
    let text = |pool: &str| {
        String::from_utf8_lossy(
            &run.rendered.artifacts[&format!("nodes/pool-{pool}/bundle/etc/x")].bytes,
        )
        .into_owned()
    };
    assert_eq!(text("general"), "all general");
    assert_eq!(text("other"), "pool other");
}
