//! Replicas whose clocks are hours apart agree on who holds what, and for how long.

use serde_json::{Value, json};

use crate::cluster::{self, Database, Replica};

/// What a replica answers; nothing where it has nothing.
fn ask(replica: &Replica, path: &str, key: Option<&str>, body: Option<Value>) -> (u16, Value) {
    let (agent, url) = (cluster::http(), format!("{}{path}", replica.url));
    let response = match body {
        None => agent.get(url).call(),
        Some(body) => {
            let mut request = agent.post(url).header("content-type", "application/json");
            if let Some(key) = key {
                request = request.header("idempotency-key", key);
            }
            request.send(body.to_string())
        }
    };
    let mut response = response.unwrap();
    let text = response.body_mut().read_to_string().unwrap();
    (
        response.status().as_u16(),
        serde_json::from_str(&text).unwrap_or_default(),
    )
}

#[test]
fn a_lease_is_as_long_on_every_clock() {
    let Ok(server) = std::env::var("UPLIFTMEM_TEST_POSTGRES") else {
        eprintln!("skipped: UPLIFTMEM_TEST_POSTGRES is not set; `cargo xtask ci` starts a PostgreSQL");
        return;
    };
    let database = Database::new(&server, "clocks");
    let place = cluster::directory(&database.url(database.port()));
    let early = cluster::replica(place.path(), -9);
    let late = cluster::replica(place.path(), 9);
    let task = json!({ "tasks": [{ "id": "clean", "context": "clean the room" }] });
    assert_eq!(ask(&early, "/v1/tasks", None, Some(task)).0, 200);
    let wanted = json!({ "task": "clean" });
    assert_eq!(ask(&early, "/v1/references", None, Some(wanted)).0, 200);

    // Handed out where the clock is behind; by a clock that is ahead it would be over at once.
    let next = "/v1/probes/next?lease_seconds=600";
    let handed = ask(&early, next, None, None).1["ticket"].take();
    let rollout = handed["rollout_id"]
        .as_str()
        .unwrap_or_else(|| panic!("{handed}"));
    let (status, nothing) = ask(&late, next, None, None);
    assert!(status == 200 && nothing["ticket"].is_null(), "{nothing}");
    // Kept alive where the clock is ahead; by that clock it would be held for hours after its time.
    let alive = json!({ "attempt": handed["attempt"], "lease_seconds": 1 });
    let path = format!("/v1/probes/{rollout}/heartbeat");
    let (status, kept) = ask(&late, &path, None, Some(alive));
    assert_eq!(status, 200, "{kept}");
    std::thread::sleep(std::time::Duration::from_millis(1_500));
    let again = ask(&early, next, None, None).1["ticket"].take();
    assert_eq!(again["rollout_id"], rollout, "{again}");
    assert_eq!(again["attempt"], 2, "{again}");

    // What one has answered the other gives again, however old it looks.
    let text = json!({ "text": "the mop is in the closet" });
    let first = ask(&late, "/v1/memories", Some("once"), Some(text.clone()));
    assert_eq!(first.0, 200, "{}", first.1);
    assert_eq!(ask(&early, "/v1/memories", Some("once"), Some(text)), first);
}
