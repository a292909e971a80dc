//! Reads many skills for a page of a listing, several at a time, and returns them in order.
//! The caller decides what is read and where a page ends.

use std::collections::VecDeque;
use std::time::{Duration, Instant};
use std::vec;

use rmcp::model::ErrorData;
use skillhost_sandbox::engine::processors;

use super::calls::RunningCall;
use super::live::LiveHost;

/// The maximum number of skills of a batch. They are read one after another on one thread, because
/// changing threads takes as long as reading a small skill.
const MAX_SKILLS: usize = 8;

/// The number of files after which a batch ends. Guards against: batches of skills with
/// thousands of files, which would all be in memory.
const MAX_FILES: usize = 1_000;

/// The maximum number of batches at a time. Guards against: a listing that takes the slots of calls
/// on a machine with many processors.
const MAX_BATCHES: usize = 4;

/// The time after which a page reads no more skills. Guards against: a page that takes minutes,
/// because its skills have thousands of entries that are not listed.
const MAX_TIME: Duration = Duration::from_secs(15);

/// The result of reading a skill, and the number of its files.
pub(crate) type SkillReading<T> = (T, usize);

/// Skills that are read in batches, in the order of their names.
pub(crate) struct Batches<'a, T, R> {
    live: &'a LiveHost,
    names: VecDeque<String>,
    read: R,
    max_running: usize,
    running: VecDeque<RunningBatch<T>>,
    /// The skills that were read, but not returned yet.
    read_ahead: vec::IntoIter<(String, T)>,
    /// The time after which no skill is read, except the first.
    deadline: Instant,
    has_read: bool,
}

struct RunningBatch<T> {
    first: String,
    skills: usize,
    call: RunningCall<Batch<T>>,
}

/// The result of a batch: the skills that it has read, and the names of the others.
struct Batch<T> {
    read: Vec<(String, T)>,
    rest: Vec<String>,
}

impl<'a, T, R, F> Batches<'a, T, R>
where
    T: Send + 'static,
    R: Fn(String) -> F + Clone + Send + 'static,
    F: Future<Output = SkillReading<T>> + Send,
{
    /// Returns batches of these skills. `slots` is the number of calls that may run at a
    /// time.
    pub(crate) fn new(live: &'a LiveHost, names: Vec<String>, slots: usize, read: R) -> Self {
        // Leaves slots for other calls.
        let slots = (slots / 2).max(1);
        Self {
            live,
            names: names.into(),
            read,
            max_running: MAX_BATCHES.min(processors()).min(slots),
            running: VecDeque::new(),
            read_ahead: Vec::new().into_iter(),
            deadline: Instant::now() + MAX_TIME,
            has_read: false,
        }
    }

    /// Returns the next skill and its reading. Returns `None` after the last one, or if
    /// reading has taken too long. Reads at most `wanted` skills ahead, so that few are read
    /// in vain at the end of a page.
    pub(crate) async fn next(&mut self, wanted: usize) -> Result<Option<(String, T)>, ErrorData> {
        loop {
            if let Some(skill) = self.read_ahead.next() {
                return Ok(Some(skill));
            }
            if self.has_read && Instant::now() >= self.deadline {
                return Ok(None);
            }
            let mut begun: usize = self.running.iter().map(|batch| batch.skills).sum();
            while self.running.len() < self.max_running && begun < wanted {
                let skills = MAX_SKILLS.min(wanted - begun).min(self.names.len());
                if skills == 0 {
                    break;
                }
                let names = self.names.drain(..skills).collect();
                let batch = self.begin(names)?;
                self.running.push_back(batch);
                begun += skills;
            }
            let Some(batch) = self.running.pop_front() else {
                return Ok(None);
            };
            let Batch { read, rest } = batch.call.finish().await?;
            if !rest.is_empty() {
                let batch = self.begin(rest)?;
                self.running.push_front(batch);
            }
            self.has_read = true;
            self.read_ahead = read.into_iter();
        }
    }

    /// Returns the name of the first skill that [`next`](Self::next) has not returned.
    pub(crate) fn into_next_name(mut self) -> Option<String> {
        let read_ahead = self.read_ahead.next().map(|(name, _)| name);
        let running = || self.running.pop_front().map(|batch| batch.first);
        read_ahead
            .or_else(running)
            .or_else(|| self.names.pop_front())
    }

    fn begin(&self, names: Vec<String>) -> Result<RunningBatch<T>, ErrorData> {
        let (read, deadline) = (self.read.clone(), self.deadline);
        let skills = names.len();
        let first = names.first().cloned().unwrap_or_default();
        let call = self.live.begin(async move {
            let mut names = names.into_iter();
            let (mut readings, mut files) = (Vec::new(), 0);
            while files < MAX_FILES
                && (readings.is_empty() || Instant::now() < deadline)
                && let Some(name) = names.next()
            {
                let (reading, count) = read(name.clone()).await;
                readings.push((name, reading));
                files += count;
            }
            Batch {
                read: readings,
                rest: names.collect(),
            }
        })?;
        Ok(RunningBatch {
            first,
            skills,
            call,
        })
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use skillhost::HostBuilder;

    use super::*;

    #[tokio::test]
    async fn returns_skills_in_order_and_reads_few_ahead() {
        let live = LiveHost::new(HostBuilder::default());
        live.start_calls().unwrap();
        let names: Vec<String> = (0..100).map(|number| format!("{number:03}")).collect();
        for (files, wanted, taken, max_reads) in [
            (0, 100, 100, 100),
            (0, 20, 1, 20),
            (MAX_FILES, 100, 100, 100),
            (MAX_FILES, 1, 1, 1),
        ] {
            let reads = Arc::new(AtomicUsize::new(0));
            let read = {
                let reads = Arc::clone(&reads);
                move |name: String| {
                    let number = reads.fetch_add(1, Ordering::Relaxed);
                    async move {
                        if number.is_multiple_of(3) {
                            tokio::task::yield_now().await;
                        }
                        (name, files)
                    }
                }
            };
            let mut batches = Batches::new(&live, names.clone(), 100, read);
            let mut seen = Vec::new();
            while seen.len() < taken
                && let Some((name, read)) = batches.next(wanted).await.unwrap()
            {
                assert_eq!(name, read);
                seen.push(name);
            }
            assert_eq!(batches.into_next_name().as_ref(), names.get(taken));
            assert_eq!(seen, names[..taken]);
            assert!(
                reads.load(Ordering::Relaxed) <= max_reads,
                "{files} {wanted}"
            );
        }
        let mut none = Batches::new(&live, Vec::new(), 1, |_| async { ((), 0) });
        assert!(none.next(9).await.unwrap().is_none());
    }

    #[tokio::test]
    async fn reads_one_skill_when_time_is_up() {
        let live = LiveHost::new(HostBuilder::default());
        live.start_calls().unwrap();
        let names: Vec<String> = (0..100).map(|number| format!("{number:03}")).collect();
        let mut batches = Batches::new(&live, names, 100, |_| async { ((), 0) });
        batches.deadline = Instant::now();
        let (first, ()) = batches.next(100).await.unwrap().unwrap();
        assert_eq!(first, "000");
        assert!(batches.next(100).await.unwrap().is_none());
        assert_eq!(batches.into_next_name().as_deref(), Some("001"));
    }
}
