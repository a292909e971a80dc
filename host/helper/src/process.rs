//! A helper process that answers requests over pipes, with limits on its time and output.

use std::io::{self, ErrorKind, PipeReader, PipeWriter, Read, Write as _};
use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Child, Command, ExitStatus};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, anyhow, bail};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
use rustix::process::{
    Pid, Signal, WaitId, WaitIdOptions, getpid, getppid, kill_process_group,
    set_parent_process_death_signal, waitid,
};

use crate::message::{Kind, Message, head, read_message, write_message};

/// The maximum size of an error message, in bytes. Guards against: a process that fills the log.
const MAX_ERROR_BYTES: usize = 4096;

/// The interval at which a process that has closed its output is polled.
const POLL_INTERVAL: Duration = Duration::from_millis(1);

/// The script of a shell that runs a program. The shell kills its process group when it gets
/// SIGTERM, which the kernel sends when the thread that started the shell ends. A shell gives no
/// stdin to a command in the background, so the program gets a copy of the shell's stdin.
const LEADER_SCRIPT: &str =
    r#"trap 'kill -KILL 0' TERM; exec 3<&0; "$@" <&3 3<&- & exec 3<&-; wait "$!""#;

/// A child process that was started here or by the broker.
pub trait ChildHandle: Send {
    /// Returns the exit status, or `None` while the process runs.
    fn try_wait(&mut self) -> io::Result<Option<ExitStatus>>;

    /// Kills the process. An error means that it has ended already.
    fn kill(&mut self) -> io::Result<()>;
}

impl ChildHandle for Child {
    fn try_wait(&mut self) -> io::Result<Option<ExitStatus>> {
        self.try_wait()
    }

    fn kill(&mut self) -> io::Result<()> {
        self.kill()?;
        self.wait().map(drop)
    }
}

/// A shell that runs a program in a new process group. The whole group ends when the program
/// ends, when the shell is killed, and when the thread that started the shell ends.
#[derive(Debug)]
pub struct GroupLeader {
    shell: Child,
    status: Option<ExitStatus>,
}

impl GroupLeader {
    /// Returns a command that starts a program with an empty environment, for
    /// [`GroupLeader::spawn`].
    pub fn command(program: &Path) -> Command {
        let mut command = crate::command(Path::new("/bin/sh"));
        command.args(["-c", LEADER_SCRIPT, "sh"]).arg(program);
        command
    }

    /// Starts a command from [`GroupLeader::command`] in a new process group.
    ///
    /// # Errors
    ///
    /// Fails if the command cannot be started.
    pub fn spawn(command: &mut Command) -> io::Result<Self> {
        let parent = getpid();
        let end_with_parent = move || {
            set_parent_process_death_signal(Some(Signal::TERM))?;
            if getppid() != Some(parent) {
                return Err(ErrorKind::NotFound.into());
            }
            Ok(())
        };
        #[allow(
            unsafe_code,
            reason = "the standard library has no call for it; the closure makes two system calls \
                      and allocates nothing"
        )]
        // SAFETY: both system calls may be made between fork and exec.
        unsafe {
            command.pre_exec(end_with_parent);
        }
        Ok(Self {
            shell: command.process_group(0).spawn()?,
            status: None,
        })
    }

    /// Kills the group. No other group can get the identifier until `wait` has reaped the leader.
    fn kill_group(&mut self) -> io::Result<()> {
        kill_process_group(Pid::from_child(&self.shell), Signal::KILL)?;
        self.status = Some(self.shell.wait()?);
        Ok(())
    }
}

impl ChildHandle for GroupLeader {
    fn try_wait(&mut self) -> io::Result<Option<ExitStatus>> {
        let leader = WaitId::Pid(Pid::from_child(&self.shell));
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
        if self.status.is_none() && waitid(leader, options)?.is_some() {
            self.kill_group()?;
        }
        Ok(self.status)
    }

    fn kill(&mut self) -> io::Result<()> {
        if self.try_wait()?.is_none() {
            self.kill_group()?;
        }
        Ok(())
    }
}

/// A helper process. Dropping this kills it.
pub struct HelperProcess {
    /// The name in messages, such as `the compiling process`.
    name: &'static str,
    child: Box<dyn ChildHandle>,
    /// The stdin of the process. `None` after the process has failed or its input was closed.
    requests: Option<PipeWriter>,
    answers: PipeReader,
    /// The stderr of the process. `None` once it is closed or `error_message` is full.
    errors: Option<PipeReader>,
    /// The first bytes from stderr.
    error_message: Vec<u8>,
}

impl std::fmt::Debug for HelperProcess {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("HelperProcess")
            .field("name", &self.name)
            .finish_non_exhaustive()
    }
}

impl HelperProcess {
    /// Starts a process. `start` gets the process's stdin, stdout and stderr.
    ///
    /// # Errors
    ///
    /// Fails if the process cannot be started.
    pub fn start(
        name: &'static str,
        start: impl FnOnce([OwnedFd; 3]) -> io::Result<Box<dyn ChildHandle>>,
    ) -> io::Result<Self> {
        let (child_stdin, requests) = io::pipe()?;
        let (answers, child_stdout) = io::pipe()?;
        let (errors, child_stderr) = io::pipe()?;
        // A process that does not read must not block this one.
        fcntl_setfl(&requests, fcntl_getfl(&requests)? | OFlags::NONBLOCK)?;
        let child = start([child_stdin.into(), child_stdout.into(), child_stderr.into()])?;
        Ok(Self {
            name,
            child,
            requests: Some(requests),
            answers,
            errors: Some(errors),
            error_message: Vec::new(),
        })
    }

    /// Sends a message that gets no answer. It must fit into an empty pipe.
    ///
    /// # Errors
    ///
    /// Fails if the process has ended, or does not read earlier messages.
    pub fn send(&mut self, message: &[u8]) -> io::Result<()> {
        let requests = self.requests.as_ref().ok_or(ErrorKind::BrokenPipe)?;
        write_message(requests, Kind::Request, message)
    }

    /// Returns whether the process has ended, or was abandoned after an error.
    pub fn has_ended(&self) -> bool {
        let Some(requests) = &self.requests else {
            return true;
        };
        // Only the process has the other end of the pipe.
        let mut polled = [PollFd::new(requests, PollFlags::empty())];
        let polled_now = poll(&mut polled, Some(&Timespec::default()));
        polled_now.is_ok() && polled[0].revents().contains(PollFlags::ERR)
    }

    /// Sends a request, and returns the answer, or the failure that the process reports.
    ///
    /// # Errors
    ///
    /// Fails if the process ends, sends an invalid message, or exceeds the limit on time or on
    /// the answer's size. Then the process is killed, and all further requests fail.
    pub fn request(
        &mut self,
        request: &[u8],
        max_answer: usize,
        time: Duration,
    ) -> anyhow::Result<Message> {
        let answer = self.exchange(request, max_answer, time);
        if answer.is_err() {
            self.close_and_kill();
        }
        answer
    }

    /// Sends the only request, and returns its answer after the process has ended.
    ///
    /// # Errors
    ///
    /// Fails like [`Self::request`], and with the failure that the process reports.
    pub fn run(
        mut self,
        request: &[u8],
        max_answer: usize,
        time: Duration,
    ) -> anyhow::Result<Vec<u8>> {
        let deadline = Instant::now() + time;
        let Message { kind, bytes } = self.request(request, max_answer, time)?;
        self.requests = None;
        // The answer is complete, even if the process is slow to end.
        let _ = self.wait(deadline);
        match kind {
            Kind::Failure => bail!("{}", String::from_utf8_lossy(&bytes).trim_end()),
            _ => Ok(bytes),
        }
    }

    /// Writes the whole input of a process that does not use messages, and returns its whole
    /// output after it has ended.
    ///
    /// # Errors
    ///
    /// Fails if the process fails, or exceeds the limit on time or on the output's size. The error
    /// contains what the process wrote to stderr.
    pub fn filter(
        mut self,
        input: &[u8],
        max_output: usize,
        time: Duration,
    ) -> anyhow::Result<Vec<u8>> {
        let name = self.name;
        let late = || anyhow!("{name} took longer than {time:?}");
        let deadline = Instant::now() + time;
        let mut exchange = Exchange {
            unsent: [&[], input],
            is_last: true,
            deadline,
            process: &mut self,
        };
        exchange.send();
        let mut output = Vec::new();
        let mut bounded = exchange.take(max_output as u64 + 1);
        match bounded.read_to_end(&mut output) {
            Ok(_) if output.len() > max_output => {
                bail!("{name} wrote more than {max_output} bytes")
            }
            Ok(_) => {}
            Err(error) if error.kind() == ErrorKind::TimedOut => return Err(late()),
            Err(error) => return Err(error).with_context(|| format!("cannot read from {name}")),
        }
        let status = self.finish(deadline).ok_or_else(late)?;
        if !status.as_ref().is_ok_and(ExitStatus::success) {
            return Err(self.explain(status));
        }
        Ok(output)
    }

    fn exchange(
        &mut self,
        request: &[u8],
        max_answer: usize,
        time: Duration,
    ) -> anyhow::Result<Message> {
        let name = self.name;
        if self.requests.is_none() {
            bail!("{name} has ended");
        }
        let deadline = Instant::now() + time;
        let head = head(Kind::Request, request.len().try_into()?);
        let mut exchange = Exchange {
            unsent: [&head, request],
            is_last: false,
            deadline,
            process: self,
        };
        let answer = read_message(&mut exchange, max_answer);
        if exchange.has_unsent() {
            // The process would read the next request as the rest of this one.
            self.requests = None;
        }
        let error = match answer {
            Ok(Some(message)) if message.kind != Kind::Request => return Ok(message),
            Ok(Some(_)) => ErrorKind::InvalidData.into(),
            Ok(None) => ErrorKind::UnexpectedEof.into(),
            Err(error) => error,
        };
        let late = || anyhow!("{name} took longer than {time:?}");
        match error.kind() {
            ErrorKind::TimedOut => Err(late()),
            ErrorKind::FileTooLarge => bail!("{name} wrote more than {max_answer} bytes"),
            ErrorKind::InvalidData => bail!("{name} wrote an invalid answer"),
            ErrorKind::UnexpectedEof => Err(self.explain_end(deadline).unwrap_or_else(late)),
            _ => Err(error).with_context(|| format!("cannot read the answer of {name}")),
        }
    }

    /// Waits for the end of a process that has closed its output, and returns the reason. Returns
    /// `None` if the process has not ended at the deadline.
    fn explain_end(&mut self, deadline: Instant) -> Option<anyhow::Error> {
        let status = self.finish(deadline)?;
        Some(self.explain(status))
    }

    /// Waits for the end of a process that has closed its output. Returns `None` if the process has
    /// not ended at the deadline.
    fn finish(&mut self, deadline: Instant) -> Option<io::Result<ExitStatus>> {
        let exchange = Exchange {
            unsent: [&[], &[]],
            is_last: false,
            deadline,
            process: self,
        };
        // A process writes its error message before it ends.
        while exchange.process.errors.is_some() {
            let ready = exchange.poll().ok()?;
            if ready.errors {
                exchange.process.read_errors();
            }
        }
        self.wait(deadline).transpose()
    }

    /// Returns the reason why a process has ended.
    fn explain(&self, status: io::Result<ExitStatus>) -> anyhow::Error {
        let name = self.name;
        let message = String::from_utf8_lossy(&self.error_message);
        let message = message.trim_end();
        match status {
            Ok(status) if status.code().is_none() => {
                anyhow!("{name} exceeded its limits: {status}")
            }
            _ if !message.is_empty() => anyhow!("{message}"),
            Ok(status) if !status.success() => anyhow!("{name} failed: {status}"),
            // A confined process cannot wait for processes that it started before confinement.
            _ => anyhow!("{name} has ended"),
        }
    }

    /// Waits until the process ends. Returns `None` if it has not ended at the deadline.
    fn wait(&mut self, deadline: Instant) -> io::Result<Option<ExitStatus>> {
        loop {
            let status = self.child.try_wait()?;
            if status.is_some() || Instant::now() >= deadline {
                return Ok(status);
            }
            thread::sleep(POLL_INTERVAL);
        }
    }

    /// Reads a part of the process's stderr.
    fn read_errors(&mut self) {
        let Some(errors) = &mut self.errors else {
            return;
        };
        let mut bytes = [0; MAX_ERROR_BYTES];
        let left = MAX_ERROR_BYTES - self.error_message.len();
        match errors.read(&mut bytes[..left]) {
            Ok(count @ 1..) => self.error_message.extend_from_slice(&bytes[..count]),
            _ => self.errors = None,
        }
        if self.error_message.len() == MAX_ERROR_BYTES {
            self.errors = None;
        }
    }

    /// Closes the process's input, and kills the process if permitted.
    fn close_and_kill(&mut self) {
        self.requests = None;
        let _ = self.child.kill();
    }
}

impl Drop for HelperProcess {
    fn drop(&mut self) {
        self.close_and_kill();
    }
}

/// A reader of an answer. While it waits, it sends the request and reads the process's stderr.
struct Exchange<'a> {
    unsent: [&'a [u8]; 2],
    /// True if the process gets no input after `unsent`.
    is_last: bool,
    deadline: Instant,
    process: &'a mut HelperProcess,
}

/// The pipes that are ready, or closed by the process.
struct Ready {
    answers: bool,
    errors: bool,
    requests: bool,
}

impl Exchange<'_> {
    fn has_unsent(&self) -> bool {
        self.unsent.iter().any(|part| !part.is_empty())
    }

    /// Waits until a pipe is ready.
    fn poll(&self) -> io::Result<Ready> {
        let HelperProcess {
            requests,
            answers,
            errors,
            ..
        } = &*self.process;
        let requests = requests.as_ref().filter(|_| self.has_unsent());
        let unused = || PollFd::new(answers, PollFlags::empty());
        let mut polled = [
            PollFd::new(answers, PollFlags::IN),
            errors
                .as_ref()
                .map_or_else(unused, |pipe| PollFd::new(pipe, PollFlags::IN)),
            requests.map_or_else(unused, |pipe| PollFd::new(pipe, PollFlags::OUT)),
        ];
        let left = self.deadline.saturating_duration_since(Instant::now());
        let timeout = Timespec::try_from(left).map_err(io::Error::other)?;
        let wait = || poll(&mut polled, Some(&timeout));
        if left.is_zero() || rustix::io::retry_on_intr(wait)? == 0 {
            return Err(ErrorKind::TimedOut.into());
        }
        let [answers, errors_ready, requests_ready] = polled.map(|pipe| !pipe.revents().is_empty());
        Ok(Ready {
            answers,
            errors: errors_ready && errors.is_some(),
            requests: requests_ready && requests.is_some(),
        })
    }

    /// Sends a part of the request.
    fn send(&mut self) {
        let Some(requests) = &mut self.process.requests else {
            return;
        };
        let [first, rest] = &mut self.unsent;
        let part = if first.is_empty() { rest } else { first };
        match requests.write(part) {
            Ok(count) => *part = &part[count..],
            Err(error) if error.kind() == ErrorKind::WouldBlock => {}
            // The process has closed its input. `explain_end` finds the reason.
            Err(_) => self.process.requests = None,
        }
        if self.is_last && !self.has_unsent() {
            self.process.requests = None;
        }
    }
}

impl Read for Exchange<'_> {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        loop {
            let ready = self.poll()?;
            if ready.errors {
                self.process.read_errors();
            }
            if ready.requests {
                self.send();
            }
            if ready.answers {
                return self.process.answers.read(bytes);
            }
        }
    }
}

/// Answers requests from stdin on stdout, like [`answer_requests`].
///
/// # Errors
///
/// Fails like [`answer_requests`].
pub fn answer_stdin(
    max_request: usize,
    answer: impl FnMut(Vec<u8>) -> anyhow::Result<Vec<u8>>,
) -> anyhow::Result<()> {
    answer_requests(io::stdin().lock(), io::stdout().lock(), max_request, answer)
}

/// Answers requests until the other side closes its end. `answer` returns an answer or a failure.
///
/// # Errors
///
/// Fails if a request has more than `max_request` bytes, or a message cannot be read or written.
pub fn answer_requests(
    mut requests: impl Read,
    mut answers: impl io::Write,
    max_request: usize,
    mut answer: impl FnMut(Vec<u8>) -> anyhow::Result<Vec<u8>>,
) -> anyhow::Result<()> {
    while let Some(message) = read_message(&mut requests, max_request)? {
        match answer(message.bytes) {
            Ok(bytes) => write_message(&mut answers, Kind::Answer, &bytes)?,
            Err(error) => {
                let mut text = format!("{error:#}");
                text.truncate(text.floor_char_boundary(MAX_ERROR_BYTES));
                write_message(&mut answers, Kind::Failure, text.as_bytes())?;
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::process::Stdio;

    use super::*;

    /// Starts a shell script as a helper process.
    fn start(script: &str) -> HelperProcess {
        HelperProcess::start("the test process", |[stdin, stdout, stderr]| {
            let child = crate::command(Path::new("/bin/sh"))
                .args(["-c", script])
                .env("PATH", "/usr/bin:/bin")
                .stdin(Stdio::from(stdin))
                .stdout(Stdio::from(stdout))
                .stderr(Stdio::from(stderr))
                .spawn()?;
            Ok(Box::new(child))
        })
        .unwrap()
    }

    #[test]
    fn bounds_time_and_output_of_process() {
        let run = |script, time| match start(script).run(b"some input", 5, time) {
            Ok(answer) => String::from_utf8(answer).unwrap(),
            Err(error) => format!("{error:#}"),
        };
        let begin = Instant::now();
        let long = Duration::from_secs(60);
        let too_much = "the test process wrote more than 5 bytes";
        for (script, expected) in [
            (r"printf '\1\4\0\0\0'; head -c 9 | tail -c 4", "some"),
            (r"printf '\1\5\0\0\00012345'", "12345"),
            (r"printf '\1\6\0\0\000123456'", too_much),
            (r"printf '\1\6\0\0\000123456'; exec sleep 100", too_much),
            // Closes its input without reading it.
            (r"exec <&-; printf '\1\1\0\0\0001'", "1"),
            (r"printf '\2\3\0\0\000why'", "why"),
            (
                r"printf '\0\3\0\0\000why'",
                "the test process wrote an invalid answer",
            ),
            ("exec yes", "the test process wrote an invalid answer"),
            ("exit 0", "the test process has ended"),
            ("exit 3", "the test process failed: exit status: 3"),
            (r"printf '\1\5\0\0\00012'; echo cut >&2", "cut"),
            ("echo why >&2; exit 3", "why"),
            (
                "exec yes '' >&2",
                "the test process exceeded its limits: signal: 13 (SIGPIPE)",
            ),
            (
                "kill -9 $$",
                "the test process exceeded its limits: signal: 9 (SIGKILL)",
            ),
        ] {
            assert_eq!(run(script, long), expected, "{script}");
        }
        let late = "the test process took longer than 300ms";
        for script in [
            "exec sleep 100",
            "exec >&- 2>&-; exec sleep 100",
            r"printf '\1\5\0\0\00012'; exec sleep 100",
        ] {
            assert_eq!(run(script, Duration::from_millis(300)), late, "{script}");
        }
        let message = run("head -c 9000 /dev/zero | tr '\\0' x >&2; exit 1", long);
        assert_eq!(message.len(), MAX_ERROR_BYTES);
        assert!(begin.elapsed() < Duration::from_secs(30));
    }

    #[test]
    fn filters_whole_input() {
        let long = Duration::from_secs(60);
        let filter = |script, max, time| {
            let output = start(script).filter(&b"ab".repeat(100_000), max, time);
            output.map_err(|error| format!("{error:#}"))
        };
        assert_eq!(filter("exec cat", 200_000, long), Ok(b"ab".repeat(100_000)));
        assert_eq!(start("exec cat").filter(b"", 0, long).unwrap(), b"");
        for (script, time, why) in [
            ("exec cat", long, "the test process wrote more than 9 bytes"),
            ("exec yes", long, "the test process wrote more than 9 bytes"),
            ("exit 3", long, "the test process failed: exit status: 3"),
            ("echo some; echo why >&2; exit 3", long, "why"),
            (
                "cat >/dev/null; exec sleep 100",
                Duration::from_millis(300),
                "the test process took longer than 300ms",
            ),
        ] {
            assert_eq!(filter(script, 9, time), Err(why.to_owned()), "{script}");
        }
    }

    /// Starts a shell script in a group. The reader reaches its end when the last process has ended.
    fn start_group(script: &str) -> (HelperProcess, PipeReader) {
        let (ended, alive) = io::pipe().unwrap();
        let process = HelperProcess::start("the test process", |[stdin, stdout, _]| {
            let mut command = GroupLeader::command(Path::new("/bin/sh"));
            command
                .args(["-c", script])
                .env("PATH", "/usr/bin:/bin")
                .stdin(Stdio::from(stdin))
                .stdout(Stdio::from(stdout))
                .stderr(Stdio::from(alive));
            Ok(Box::new(GroupLeader::spawn(&mut command)?))
        });
        (process.unwrap(), ended)
    }

    #[test]
    fn group_filters_input_and_reports_its_status() {
        let (process, _) = start_group("exec cat");
        let output = process.filter(b"input", 9, Duration::from_secs(60));
        assert_eq!(output.unwrap(), b"input");
        let (process, _) = start_group("exit 3");
        let error = process.filter(b"", 9, Duration::from_secs(60)).unwrap_err();
        assert!(error.to_string().contains("exit status: 3"), "{error}");
    }

    #[test]
    fn group_ends_after_timeout_program_or_thread() {
        let begin = Instant::now();
        let (process, mut ended) = start_group("sleep 100 & wait");
        assert!(process.filter(b"", 9, Duration::from_millis(300)).is_err());
        assert_eq!(ended.read(&mut [0]).unwrap(), 0);

        let (process, mut ended) = start_group("sleep 100 >&- & exit 0");
        process.filter(b"", 9, Duration::from_secs(60)).unwrap();
        assert_eq!(ended.read(&mut [0]).unwrap(), 0);

        // As if this process had been killed.
        let thread = thread::spawn(|| {
            let (mut process, ended) = start_group("sleep 100 & echo 1; wait");
            assert_eq!(process.answers.read(&mut [0]).unwrap(), 1);
            std::mem::forget(process);
            ended
        });
        let mut ended = thread.join().unwrap();
        assert_eq!(ended.read(&mut [0]).unwrap(), 0);
        assert!(begin.elapsed() < Duration::from_secs(60));
    }

    #[test]
    fn sends_and_receives_more_than_pipes_hold() {
        let bytes: Vec<u8> = (0..1_000_000_u32).flat_map(u32::to_le_bytes).collect();
        // Answers with the request: replaces its first byte, the kind.
        let script = r"dd bs=1 count=1 >/dev/null 2>&1; printf '\1'; exec cat";
        let mut process = start(script);
        let answer = process.request(&bytes, bytes.len(), Duration::from_secs(60));
        assert!(answer.unwrap().bytes == bytes);
    }

    #[test]
    fn answers_nothing_after_error() {
        let script = r"printf '\1\0\0\0\0\2\1\0\0\0x\1'; exec sleep 100";
        let mut process = start(script);
        let mut request = |time| process.request(b"", 5, Duration::from_millis(time));
        assert_eq!(request(60_000).unwrap().kind, Kind::Answer);
        assert_eq!(request(60_000).unwrap().kind, Kind::Failure);
        request(100).unwrap_err();
        let error = request(60_000).unwrap_err();
        assert_eq!(error.to_string(), "the test process has ended");
    }

    #[test]
    fn notices_end_between_requests() {
        let mut process = start(r"head -c 5 >/dev/null; printf '\1\0\0\0\0'; exec head -c 6 >&2");
        assert!(!process.has_ended());
        process.request(b"", 0, Duration::from_secs(60)).unwrap();
        assert!(!process.has_ended());
        process.send(b"x").unwrap();
        process.child.try_wait().unwrap();
        let begin = Instant::now();
        while !process.has_ended() {
            assert!(begin.elapsed() < Duration::from_secs(60));
            thread::sleep(POLL_INTERVAL);
        }
        assert_eq!(
            process.send(b"x").unwrap_err().kind(),
            ErrorKind::BrokenPipe
        );
    }

    #[test]
    fn kills_process_on_drop() {
        let process = start("exec sleep 100");
        let mut output = process.answers.try_clone().unwrap();
        let begin = Instant::now();
        drop(process);
        // The output closes when the process ends.
        assert_eq!(output.read(&mut [0]).unwrap(), 0);
        assert!(begin.elapsed() < Duration::from_secs(60));
    }

    #[test]
    fn answers_requests_until_the_end() {
        let mut requests = Vec::new();
        for bytes in [&b"one"[..], b"two"] {
            write_message(&mut requests, Kind::Request, bytes).unwrap();
        }
        let answer = |request: Vec<u8>| match &*request {
            b"one" => Err(anyhow!("no {}", "é".repeat(MAX_ERROR_BYTES))),
            _ => Ok(request),
        };
        let mut answers = Vec::new();
        answer_requests(&*requests, &mut answers, 3, answer).unwrap();
        let mut answers = &*answers;
        let mut next = || read_message(&mut answers, MAX_ERROR_BYTES).unwrap();
        let failure = next().unwrap();
        assert_eq!(failure.kind, Kind::Failure);
        assert!(failure.bytes.starts_with(b"no ") && failure.bytes.len() >= MAX_ERROR_BYTES - 1);
        let bytes = b"two".to_vec();
        assert_eq!(
            next(),
            Some(Message {
                kind: Kind::Answer,
                bytes
            })
        );
        assert_eq!(next(), None);
        answer_requests(&*requests, &mut Vec::new(), 2, answer).unwrap_err();
    }
}
