//! An executor that can do everything wrong that a child process can do. What it does is its first argument.
#![allow(clippy::unwrap_used, clippy::print_stderr)] // It is a tool of the tests.

use std::{
    fs,
    io::{self, BufRead, Read, Write},
    process::{Command, Stdio, exit},
    thread,
    time::Duration,
};

use serde_json::{Value, json};

/// The request's task tells what its outcome should be, so that a test can tell whose it got.
fn answer(request: &Value) -> String {
    let number: f64 = request["task"]["id"].as_str().unwrap().parse().unwrap();
    json!({
        "v": 1, "id": request["id"], "performance": number / 1000.0, "cost": number,
        "diagnostics": {"memories": request["memories"].as_array().unwrap().len(), "seed": request["seed"]},
    })
    .to_string()
}

fn say(line: &str) {
    let mut stdout = io::stdout().lock();
    writeln!(stdout, "{line}").unwrap();
    stdout.flush().unwrap();
}

fn requests() -> impl Iterator<Item = Value> {
    io::stdin()
        .lock()
        .lines()
        .map(|line| serde_json::from_str(&line.unwrap()).unwrap())
}

fn is(request: &Value, task: &str) -> bool {
    request["task"]["id"] == task
}

fn forever() -> ! {
    loop {
        thread::sleep(Duration::from_secs(60));
    }
}

/// Whether this is the first child that asks: a file remembers over restarts.
fn first_time(mark: &str) -> bool {
    fs::File::create_new(mark).is_ok()
}

/// Collects so many requests, answers them in an order of its own, in pieces of odd lengths.
fn shuffle(count: usize, mut seed: u64) {
    let mut next = move |below: usize| {
        seed = seed
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(seed >> 33).unwrap() % below
    };
    let mut held: Vec<Value> = requests().take(count).collect();
    let mut bytes = Vec::new();
    while !held.is_empty() {
        let request = held.swap_remove(next(held.len()));
        bytes.extend_from_slice(answer(&request).as_bytes());
        bytes.push(b'\n');
    }
    let mut stdout = io::stdout().lock();
    while !bytes.is_empty() {
        let piece: Vec<u8> = bytes.drain(..(1 + next(200)).min(bytes.len())).collect();
        stdout.write_all(&piece).unwrap();
        stdout.flush().unwrap();
    }
    io::stdin().read_to_end(&mut Vec::new()).unwrap();
}

/// Starts another process that stays, connected to the test: the test sees when it is gone.
#[allow(clippy::zombie_processes)] // Whether it is left behind is what the test asks.
fn start_grandchild(address: &str) {
    let mut grandchild = Command::new(std::env::current_exe().unwrap())
        .args(["stay", address])
        .stdin(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let ready = grandchild.stderr.as_mut().unwrap().read(&mut [0]);
    assert!(ready.is_ok());
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match arguments[..] {
        ["good"] => requests().for_each(|request| say(&answer(&request))),
        ["crash-at-once"] => {
            eprintln!("no module named agent");
            exit(3);
        }
        ["crash-after", count] => {
            for request in requests().take(count.parse().unwrap()) {
                say(&answer(&request));
            }
            exit(1);
        }
        // One task crashes every child; all others are fine. Requests are held back so that many are in flight.
        ["poison", task] => {
            for request in requests() {
                if is(&request, task) {
                    exit(9);
                }
                thread::sleep(Duration::from_millis(20));
                say(&answer(&request));
            }
        }
        // Hangs on one task, as a child that works on one request after another does.
        ["hang-on", task] => {
            for request in requests() {
                if is(&request, task) {
                    forever();
                }
                say(&answer(&request));
            }
        }
        ["half-a-line-once", mark] => {
            for request in requests() {
                let line = answer(&request);
                if first_time(mark) {
                    let mut stdout = io::stdout().lock();
                    stdout.write_all(&line.as_bytes()[..line.len() - 1]).unwrap();
                    stdout.flush().unwrap();
                    exit(0);
                }
                say(&line);
            }
        }
        ["garbage-around"] => {
            for request in requests() {
                say("Loading weights: 100%");
                say("[1, 2]");
                io::stdout().write_all(b"\xff\xfe\x00\n").unwrap();
                say(&answer(&request));
            }
        }
        ["garbage-flood"] => loop {
            say("all work and no play makes a dull log");
        },
        ["stderr-flood"] => {
            for request in requests() {
                for _ in 0..20_000 {
                    eprintln!("a line of some length that nobody will ever read, again and again");
                }
                eprint!("{}", "without an end ".repeat(10_000));
                say(&answer(&request));
            }
        }
        ["twice"] => {
            for request in requests() {
                say(&answer(&request));
                say(&answer(&request).replace("\"cost\":", "\"cost\":9"));
            }
        }
        ["unknown-id"] => {
            for request in requests() {
                let mut other = request.clone();
                other["id"] = "00000000-0000-0000-0000-0000000000ff".into();
                say(&answer(&other));
                say(&answer(&request));
            }
        }
        // Says about itself whatever the test wants, with the right id.
        ["fields", fields] => {
            requests().for_each(|request| say(&format!(r#"{{"v":1,"id":{},{fields}}}"#, request["id"])));
        }
        ["huge-line"] => {
            requests().next();
            loop {
                io::stdout().write_all(&[b'x'; 1 << 16]).unwrap();
            }
        }
        ["ignore-stdin-close", address] => {
            start_grandchild(address);
            requests().for_each(|request| say(&answer(&request)));
            forever();
        }
        ["leave-grandchild", address] => {
            start_grandchild(address);
            let request = requests().next().unwrap();
            say(&answer(&request));
            exit(1);
        }
        ["stay", address] => {
            let _connection = std::net::TcpStream::connect(address).unwrap();
            eprintln!("ready");
            forever();
        }
        ["slow", milliseconds] => {
            for request in requests() {
                thread::sleep(Duration::from_millis(milliseconds.parse().unwrap()));
                say(&answer(&request));
            }
        }
        ["shuffle", count, seed] => shuffle(count.parse().unwrap(), seed.parse().unwrap()),
        ["environment"] => {
            for request in requests() {
                let directory = std::env::current_dir().unwrap();
                say(&json!({
                    "v": 1, "id": request["id"], "performance": 1, "cost": 0,
                    "diagnostics": {"greeting": std::env::var("GREETING").unwrap(), "directory": directory},
                })
                .to_string());
            }
        }
        _ => panic!("unknown behaviour {arguments:?}"),
    }
}
