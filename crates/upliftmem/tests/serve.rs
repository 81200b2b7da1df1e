//! The server as a process: found by its first line, stopped in good order, killed without a loss.
#![cfg(unix)]
#![allow(clippy::unwrap_used)]

mod support;

use std::{
    io::{BufRead, BufReader, Write},
    path::Path,
    process::{Child, Command, Stdio},
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use serde_json::{Value, json};
use support::{fails, succeeds, upliftmem};

struct Running {
    process: Child,
    url: String,
}

fn start(directory: &Path, flags: &[&str]) -> Running {
    let mut process = upliftmem(directory)
        .args(["serve", "--address", "127.0.0.1:0", "--json"])
        .args(flags)
        .env("UPLIFTMEM_LOG", "warn")
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    BufReader::new(process.stdout.take().unwrap())
        .read_line(&mut line)
        .unwrap();
    let told: Value = serde_json::from_str(&line).unwrap();
    Running {
        process,
        url: told["url"].as_str().unwrap().to_owned(),
    }
}

fn signal(process: &Child, name: &str) {
    let id = process.id().to_string();
    assert!(Command::new("kill").args([name, &id]).status().unwrap().success());
}

fn agent() -> ureq::Agent {
    ureq::Agent::config_builder()
        .http_status_as_error(false)
        .timeout_global(Some(Duration::from_secs(60)))
        .build()
        .into()
}

fn get(agent: &ureq::Agent, url: &str) -> Value {
    let text = agent
        .get(url)
        .call()
        .unwrap()
        .body_mut()
        .read_to_string()
        .unwrap();
    serde_json::from_str(&text).unwrap()
}

fn post(agent: &ureq::Agent, url: &str, body: &Value) -> Result<Value, ureq::Error> {
    let request = agent.post(url).header("content-type", "application/json");
    let mut response = request.send(body.to_string())?;
    let text = response.body_mut().read_to_string()?;
    Ok(serde_json::from_str(&text).unwrap())
}

#[test]
fn what_was_acknowledged_is_there_after_a_kill_under_load() {
    let directory = tempfile::tempdir().unwrap();
    succeeds(directory.path(), &["init"]);
    let acknowledged: Arc<Mutex<Vec<(String, String)>>> = Arc::default();
    for round in 0..3 {
        let mut running = start(directory.path(), &[]);
        let stop = Arc::new(AtomicBool::new(false));
        let writers: Vec<_> = (0..4)
            .map(|writer| {
                let (url, stop, acknowledged) =
                    (running.url.clone(), Arc::clone(&stop), Arc::clone(&acknowledged));
                std::thread::spawn(move || {
                    let agent = agent();
                    for number in 0.. {
                        let text = format!("round {round} writer {writer} number {number}");
                        let Ok(answer) =
                            post(&agent, &format!("{url}/v1/memories"), &json!({ "text": text }))
                        else {
                            break;
                        };
                        let id = answer["results"][0]["id"].as_str();
                        let id = id.unwrap_or_else(|| panic!("{answer}")).to_owned();
                        acknowledged.lock().unwrap().push((id, text.clone()));
                        let search = post(
                            &agent,
                            &format!("{url}/v1/memories/search"),
                            &json!({ "query": text }),
                        );
                        let Ok(search) = search else { break };
                        let outcome = json!({ "retrieval_id": search["retrieval_id"], "success": true });
                        if post(&agent, &format!("{url}/v1/outcomes"), &outcome).is_err()
                            || stop.load(Ordering::SeqCst)
                        {
                            break;
                        }
                    }
                })
            })
            .collect();
        std::thread::sleep(Duration::from_millis(700));
        signal(&running.process, "-KILL");
        running.process.wait().unwrap();
        stop.store(true, Ordering::SeqCst);
        for writer in writers {
            writer.join().unwrap();
        }
    }
    let acknowledged = acknowledged.lock().unwrap().clone();
    assert!(acknowledged.len() > 10, "{}", acknowledged.len());
    let mut running = start(directory.path(), &[]);
    let agent = agent();
    for (id, text) in &acknowledged {
        let found = get(&agent, &format!("{}/v1/memories/{id}", running.url));
        assert_eq!(found["memory"], *text);
    }
    signal(&running.process, "-TERM");
    assert!(
        running.process.wait().unwrap().success(),
        "a stop in good order is a success"
    );
}

#[test]
fn keys_are_made_listed_and_revoked() {
    let directory = tempfile::tempdir().unwrap();
    let place = directory.path();
    succeeds(place, &["init"]);
    let refused = fails(place, 1, &["keys", "create", "x"]);
    assert!(refused.contains("--all-scopes"), "{refused}");
    let made = succeeds(place, &["keys", "create", "x", "--user-id", "alice", "--json"]);
    let made: Value = serde_json::from_str(&made).unwrap();
    let (secret, id) = (made["key"].as_str().unwrap(), made["id"].as_str().unwrap());
    let listed = succeeds(place, &["keys", "list"]);
    assert!(
        listed.contains(id) && listed.contains("alice") && !listed.contains(secret),
        "{listed}"
    );

    let mut running = start(place, &["--set", "server.auth=on"]);
    let agent = agent();
    let url = format!("{}/v1/memories", running.url);
    assert_eq!(get(&agent, &url)["error"]["code"], "unauthorized");
    let with_key = agent
        .get(&url)
        .header("authorization", format!("Bearer {secret}"));
    assert_eq!(with_key.call().unwrap().status(), 200);
    succeeds(place, &["keys", "revoke", id]);
    std::thread::sleep(Duration::from_millis(5_500));
    let with_key = agent
        .get(&url)
        .header("authorization", format!("Bearer {secret}"));
    assert_eq!(with_key.call().unwrap().status(), 401);
    fails(place, 1, &["keys", "revoke", id]);
    signal(&running.process, "-TERM");
    assert!(running.process.wait().unwrap().success());
}

#[test]
fn mcp_answers_on_standard_output_and_says_nothing_else_there() {
    let directory = tempfile::tempdir().unwrap();
    succeeds(directory.path(), &["init"]);
    let mut process = upliftmem(directory.path())
        .arg("mcp")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut input = process.stdin.take().unwrap();
    let mut output = BufReader::new(process.stdout.take().unwrap());
    let mut ask = |message: Value, answered: bool| {
        writeln!(input, "{message}").unwrap();
        if !answered {
            return Value::Null;
        }
        let mut line = String::new();
        output.read_line(&mut line).unwrap();
        serde_json::from_str::<Value>(&line).unwrap()
    };
    let hello = json!({ "jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {
        "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": { "name": "test", "version": "1" } } });
    let answer = ask(hello, true);
    assert_eq!(answer["result"]["serverInfo"]["name"], "upliftmem", "{answer}");
    ask(
        json!({ "jsonrpc": "2.0", "method": "notifications/initialized" }),
        false,
    );
    let tools = ask(json!({ "jsonrpc": "2.0", "id": 2, "method": "tools/list" }), true);
    assert_eq!(tools["result"]["tools"].as_array().unwrap().len(), 3, "{tools}");
    let call = |id: u64, name: &str, arguments: Value| json!({ "jsonrpc": "2.0", "id": id, "method": "tools/call", "params": { "name": name, "arguments": arguments } });
    let added = ask(call(3, "add_memory", json!({ "text": "the mug is blue" })), true);
    assert_eq!(
        added["result"]["structuredContent"]["results"][0]["status"], "stored",
        "{added}"
    );
    let refused = ask(call(4, "add_memory", json!({ "text": "" })), true);
    assert_eq!(refused["result"]["isError"], true, "{refused}");
    drop(input);
    assert!(process.wait().unwrap().success());
    let listed = succeeds(directory.path(), &["list"]);
    assert!(listed.contains("the mug is blue"), "{listed}");
}
