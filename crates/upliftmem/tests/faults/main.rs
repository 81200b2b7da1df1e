//! Several processes on one PostgreSQL, and everything that can happen to them: workers, replicas and trainers are killed, a
//! worker is paused past its lease, connections are cut, the database is away for a while, and no two clocks agree. At the end the run equals one that
//! nothing happened to, and what was acknowledged is there.
//!
//! `UPLIFTMEM_FAULT_ROUNDS` and `UPLIFTMEM_FAULT_SEED` choose another run; a failure names the seed. `cargo xtask soak` runs 50
//! rounds, and restarts the database too.
#![cfg(unix)]
#![allow(clippy::unwrap_used, clippy::print_stderr)] // It says which fault it injects.

#[path = "../support/mod.rs"]
mod support;

mod clocks;
mod cluster;
mod proxy;

use std::time::Duration;

use cluster::{Cluster, Database, executions, journal, ledger};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

/// Faults of one run in the gate.
const ROUNDS: usize = 6;
/// Faults of one campaign; more rounds are more campaigns.
const ROUNDS_OF_ONE: usize = 10;

fn number(variable: &str, otherwise: usize) -> usize {
    match std::env::var(variable) {
        Ok(text) => text.parse().unwrap(),
        Err(_) => otherwise,
    }
}

#[test]
fn whatever_happens_to_the_processes_the_run_ends_as_if_nothing_had() {
    let Ok(server) = std::env::var("UPLIFTMEM_TEST_POSTGRES") else {
        eprintln!("skipped: UPLIFTMEM_TEST_POSTGRES is not set; `cargo xtask ci` starts a PostgreSQL");
        return;
    };
    let (rounds, seed) = (
        number("UPLIFTMEM_FAULT_ROUNDS", ROUNDS),
        number("UPLIFTMEM_FAULT_SEED", 1) as u64,
    );
    let undisturbed = Database::new(&server, "undisturbed");
    let place = cluster::directory(&undisturbed.url(undisturbed.port()));
    let expected = support::succeeds(place.path(), &cluster::TRAIN);
    let mut done = 0;
    for campaign in 0.. {
        if done >= rounds {
            break;
        }
        let seed = seed + campaign;
        eprintln!("faults with seed {seed}: {done} of {rounds} rounds done");
        let database = Database::new(&server, &format!("faults_{campaign}"));
        let mut cluster = Cluster::start(&database);
        let wanted = (rounds - done).min(ROUNDS_OF_ONE);
        let happened = disturb(&mut cluster, wanted, seed);
        assert!(
            happened > 0,
            "seed {seed}: the run ended before anything happened"
        );
        done += happened;
        let report = cluster.trained();
        cluster.check_acknowledged();
        cluster.stop_in_good_order();
        let (one, other) = (place.path(), cluster.directory());
        assert_eq!(ledger(&report), ledger(&expected), "seed {seed}: what was paid");
        assert_eq!(executions(other), executions(one), "seed {seed}: executions");
        assert_eq!(journal(other), journal(one), "seed {seed}: what was learned");
    }
}

/// Lets so many things happen, unless the run is over before; says how many did.
fn disturb(cluster: &mut Cluster, rounds: usize, seed: u64) -> usize {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let kinds = if cluster.can_restart_database() { 7 } else { 6 };
    for round in 0..rounds {
        cluster.write_memories(&mut rng);
        std::thread::sleep(Duration::from_millis(rng.random_range(100..800)));
        if cluster.finished() {
            return round;
        }
        let fault = rng.random_range(0..kinds);
        let which = rng.random_range(0..4);
        eprintln!("  round {round}: fault {fault} ({which})");
        match fault {
            0 => cluster.kill_worker(which),
            1 => cluster.kill_replica(which % 2),
            2 => cluster.kill_trainers(which),
            3 => cluster.pause_worker(which, Duration::from_millis(2_500)),
            4 => cluster.proxy().cut(),
            5 => cluster
                .proxy()
                .away(Duration::from_millis(rng.random_range(200..1_500))),
            _ => cluster.restart_database(),
        }
    }
    rounds
}
