//! What a plugin's program says, and where: this test starts itself once more, as kaws starts a plugin.

#![expect(
    clippy::print_stderr,
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "a test: it prints on purpose, and ends at the first thing that is not so"
)]

use std::fs;
use std::io::Write as _;
use std::path::PathBuf;
use std::process::{Command, ExitCode, Stdio};

use kaws_sdk::{Handler, Handlers, Request, Response, Result, Value, json};

/// The environment variable that names the plugin to be.
const WHICH: &str = "KAWS_TEST_PROGRAM";

const PROGRAMS: &[(&str, Handler)] =
    &[("answers", answers), ("fails", fails), ("noisy", noisy), ("panics", panics)];

const TESTS: &[(&str, fn())] = &[
    ("a failure is said with its causes", a_failure_is_said_with_its_causes),
    ("a panic is said with its place", a_panic_is_said_with_its_place),
    ("a program tells what it is", a_program_tells_what_it_is),
    ("answers are canonical", answers_are_canonical),
    ("each question has its function", each_question_has_its_function),
    ("what is no request is a failure", what_is_no_request_is_a_failure),
    ("whatever is printed is no part of the answer", whatever_is_printed_is_no_part_of_the_answer),
];

fn main() -> ExitCode {
    if let Ok(which) = std::env::var(WHICH) {
        let handler = PROGRAMS.iter().find(|(name, _)| *name == which).unwrap().1;
        let all = Handlers::new().initialise(handler).render(handler).deploy(handler);
        let all = all.validate(handler).event("after-deploy", handler).lookup("ami", handler);
        return all.main();
    }
    for (name, test) in TESTS {
        test();
        eprintln!("{name}: ok");
    }
    ExitCode::SUCCESS
}

fn answers(request: &Request) -> Result {
    let mut response = Response::new();
    response.put(["z"], "ü <&>").put(["a", "b"], u64::MAX);
    response.warning("c", "m").help("h");
    response.value = Some(json!([request.stage, request.event, request.name]));
    Ok(response)
}

fn fails(request: &Request) -> Result {
    let port: u16 = request.settings()?;
    Ok(Response { value: Some(port.into()), ..Response::default() })
}

fn noisy(_: &Request) -> Result {
    println!("noise");
    kaws_sdk::log("info", "grüezi");
    Ok(Response::new())
}

fn panics(request: &Request) -> Result {
    panic!("no {}", request.plugin.name)
}

/// A plugin's program that has ended.
struct Ran {
    code: Option<i32>,
    said: String,
    log: String,
    /// What stands in the file that `KAWS_RESULT` names.
    result: Option<String>,
}

fn run(which: &str, request: &str, environment: &[(&str, &str)]) -> Ran {
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(which);
    fs::create_dir_all(&folder).unwrap();
    fs::write(folder.join("plugin.yaml"), "name: acme\n").unwrap();
    let _ = fs::remove_file(folder.join("result.json"));
    let mut child = Command::new(std::env::current_exe().unwrap())
        .current_dir(&folder)
        .env_remove("KAWS_RESULT")
        .env(WHICH, which)
        .envs(environment.iter().copied())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // Who only tells what it is does not read.
    let _ = child.stdin.take().unwrap().write_all(request.as_bytes());
    let output = child.wait_with_output().unwrap();
    Ran {
        code: output.status.code(),
        said: String::from_utf8(output.stdout).unwrap(),
        log: String::from_utf8(output.stderr).unwrap(),
        result: fs::read_to_string(folder.join("result.json")).ok(),
    }
}

fn request(more: Value) -> String {
    let mut request = json!({"apiVersion": "kaws/v1", "plugin": {"name": "acme", "settings": {}}});
    request.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    request.to_string()
}

fn answers_are_canonical() {
    let ran = run("answers", &request(json!({"stage": "render"})), &[]);
    let expected = concat!(
        r#"{"apiVersion":"kaws/v1","contribution":{"a":{"b":18446744073709551615},"z":"ü <&>"},"#,
        r#""findings":[{"code":"c","help":"h","message":"m","severity":"warning"}],"#,
        r#""value":["render",null,null]}"#,
        "\n"
    );
    assert_eq!((ran.code, ran.said.as_str()), (Some(0), expected));
}

fn each_question_has_its_function() {
    for (asked, expected) in [
        (json!({"stage": "initialise"}), json!(["initialise", null, null])),
        (json!({"stage": "deploy", "name": "a"}), json!(["deploy", null, "a"])),
        (json!({"stage": "validate", "name": "b"}), json!(["validate", null, "b"])),
        (json!({"event": "after-deploy"}), json!([null, "after-deploy", null])),
        (json!({"name": "ami"}), json!([null, null, "ami"])),
        (json!({"event": "before-nodeup"}), Value::Null),
        (json!({"name": "other"}), Value::Null),
    ] {
        let ran = run("answers", &request(asked), &[]);
        let answer: Value = ran.said.parse().unwrap();
        assert_eq!((ran.code, &answer["value"]), (Some(0), &expected));
    }
}

fn whatever_is_printed_is_no_part_of_the_answer() {
    let ran = run("noisy", &request(json!({"stage": "render"})), &[("KAWS_RESULT", "result.json")]);
    assert_eq!((ran.code, ran.said.as_str()), (Some(0), "noise\n"));
    assert_eq!(ran.result.unwrap(), "{\"apiVersion\":\"kaws/v1\"}\n");
    assert_eq!(ran.log, "{\"level\":\"info\",\"message\":\"grüezi\"}\n");
}

fn a_failure_is_said_with_its_causes() {
    let ran = run("fails", &request(json!({"stage": "render"})), &[("KAWS_RESULT", "result.json")]);
    let said: Value = ran.said.parse().unwrap();
    assert_eq!((ran.code, &said["code"]), (Some(1), &json!("error")));
    assert!(said["msg"].as_str().unwrap().contains("expected u16"));
    assert!(ran.log.contains("expected u16") && ran.result.is_none());
}

fn a_panic_is_said_with_its_place() {
    let ran = run("panics", &request(json!({"stage": "render"})), &[]);
    let said: Value = ran.said.parse().unwrap();
    assert_eq!(
        (ran.code, &said["code"], &said["msg"]),
        (Some(1), &json!("panic"), &json!("no acme"))
    );
    assert!(said["details"].as_str().unwrap().starts_with("at tests/program.rs:"));
}

fn what_is_no_request_is_a_failure() {
    for asked in ["", "[]", "{}", "{"] {
        let ran = run("answers", asked, &[]);
        let said: Value = ran.said.parse().unwrap();
        assert_eq!((ran.code, &said["code"]), (Some(1), &json!("error")));
    }
}

fn a_program_tells_what_it_is() {
    let ran = run("answers", "", &[("KAWS_COMMAND", "INFO"), ("KAWS_RESULT", "result.json")]);
    assert_eq!((ran.code, ran.said.as_str(), ran.result), (Some(0), "name: acme\n", None));
}
