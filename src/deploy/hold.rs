//! The lock against a second deployment: an object in the state bucket that is there while one goes on.

use std::sync::atomic::{AtomicBool, Ordering};

use serde::{Deserialize, Serialize};
use tokio::sync::Mutex;

use super::error::Error;
use super::up::Operator;
use super::watch::{Progress, Watcher};
use crate::port::{Cloud, When};

/// The object.
const KEY: &str = "kaws/up.lock";
/// After so many seconds without a sign of life its holder is probably gone.
const STALE: u64 = 120;
/// So often the holder gives one.
const RENEWED_EVERY: std::time::Duration = std::time::Duration::from_secs(30);

/// Who deploys.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Holder {
    /// This run and no other.
    pub id: String,
    /// `ana@laptop`.
    pub who: String,
    /// Where process numbers are counted, if that is known: a machine since it started, or a container.
    pub machine: Option<String>,
    /// Their process.
    pub process: u32,
    /// Since when, in UTC.
    pub since: String,
    /// The last sign of life, in seconds since 1970.
    pub renewed: u64,
}

/// The lock, held.
#[derive(Debug)]
struct Held {
    etag: String,
    holder: Holder,
}

/// The lock as one run has it: taken once its bucket is there, kept while the run works, and given back.
pub(super) struct Lock<'a> {
    cloud: &'a dyn Cloud,
    bucket: &'a str,
    operator: &'a Operator,
    take_over: bool,
    held: Mutex<Option<Held>>,
    lost: AtomicBool,
}

impl<'a> Lock<'a> {
    /// Returns a lock that is not taken yet; with `take_over` a stale one may be.
    pub fn new(
        cloud: &'a dyn Cloud,
        bucket: &'a str,
        operator: &'a Operator,
        take_over: bool,
    ) -> Self {
        let (held, lost) = (Mutex::default(), AtomicBool::new(false));
        Self { cloud, bucket, operator, take_over, held, lost }
    }

    /// Takes it, unless this run has it already.
    ///
    /// # Errors
    /// The cloud's; somebody else has it.
    pub async fn take(&self) -> Result<(), Error> {
        let mut held = self.held.lock().await;
        if held.is_none() {
            *held = Some(take(self.cloud, self.bucket, self.operator, self.take_over).await?);
        }
        Ok(())
    }

    /// Returns a watcher that also stops the work once the lock is lost.
    pub fn guard<'w>(&'w self, inner: &'w dyn Watcher) -> Guarded<'w> {
        Guarded { inner, lost: &self.lost }
    }

    /// Works, and gives signs of life while the lock is held; the work itself may take it.
    ///
    /// # Errors
    /// The work's; the lock was lost to somebody else, whatever became of the work.
    pub async fn during<T>(
        &self,
        work: impl Future<Output = Result<T, Error>>,
    ) -> Result<T, Error> {
        let mut work = std::pin::pin!(work);
        let done = loop {
            tokio::select! {
                done = &mut work => break done,
                () = tokio::time::sleep(RENEWED_EVERY) => self.give_sign().await,
            }
        };
        if self.lost.load(Ordering::Relaxed) { Err(Error::LostLock) } else { done }
    }

    async fn give_sign(&self) {
        // The work may be taking the lock right now.
        let Ok(mut held) = self.held.try_lock() else { return };
        if let Some(held) = held.as_mut()
            && !renew(self.cloud, self.bucket, held, (self.operator.clock)()).await
        {
            self.lost.store(true, Ordering::Relaxed);
        }
    }

    /// Gives it back, if this run has it.
    ///
    /// # Errors
    /// The cloud's.
    pub async fn give_back(self) -> Result<(), Error> {
        let lost = self.lost.into_inner();
        let Some(held) = self.held.into_inner().filter(|_| !lost) else { return Ok(()) };
        match self.cloud.delete(self.bucket, KEY, When::Is(held.etag)).await {
            Err(error) if !error.is_conflict() && !error.is_not_found() => Err(error.into()),
            _ => Ok(()),
        }
    }
}

/// Begins nothing new once the lock is lost.
pub(super) struct Guarded<'a> {
    inner: &'a dyn Watcher,
    lost: &'a AtomicBool,
}

impl Watcher for Guarded<'_> {
    fn on(&self, progress: Progress) {
        self.inner.on(progress);
    }

    fn stopping(&self) -> bool {
        self.lost.load(Ordering::Relaxed) || self.inner.stopping()
    }
}

fn read(bytes: &[u8]) -> Option<Holder> {
    serde_json::from_slice(bytes).ok()
}

/// Takes the lock, or says who has it. With `take_over` a stale one is taken.
async fn take(
    cloud: &dyn Cloud,
    bucket: &str,
    operator: &Operator,
    take_over: bool,
) -> Result<Held, Error> {
    let holder = operator.holder();
    let bytes = serde_json::to_vec(&holder).expect("it is made of texts and numbers");
    match cloud.put(bucket, KEY, bytes.clone(), When::Absent).await {
        Ok(etag) => return Ok(Held { etag, holder }),
        Err(error) if error.is_conflict() => {}
        Err(error) => return Err(error.into()),
    }
    let Some(object) = cloud.get(bucket, KEY).await? else {
        // Given back in this very moment.
        let etag = cloud.put(bucket, KEY, bytes, When::Absent).await?;
        return Ok(Held { etag, holder });
    };
    let other = read(&object.bytes);
    let mine = other.as_ref().is_some_and(|o| o.id == holder.id);
    let stale = other.as_ref().is_none_or(|o| is_stale(o, operator));
    if mine || (stale && take_over) {
        let etag = cloud.put(bucket, KEY, bytes, When::Is(object.etag)).await?;
        return Ok(Held { etag, holder });
    }
    let (who, since) =
        other.map_or(("somebody".to_owned(), "some time".to_owned()), |o| (o.who, o.since));
    Err(Error::Held { who, since, stale })
}

/// Whether the holder is gone: a process of ours that has ended, or one nobody has heard of for long.
fn is_stale(other: &Holder, operator: &Operator) -> bool {
    let here = other.machine.is_some() && other.machine == operator.machine;
    (here && !(operator.alive)(other.process)) || other.renewed + STALE < (operator.clock)()
}

/// Takes a stale lock away, if there is one: what a run that was killed at its very end left.
///
/// # Errors
/// The cloud's.
pub async fn clear(cloud: &dyn Cloud, bucket: &str, operator: &Operator) -> Result<(), Error> {
    let Some(object) = cloud.get(bucket, KEY).await? else { return Ok(()) };
    if read(&object.bytes).is_none_or(|other| is_stale(&other, operator)) {
        cloud.delete(bucket, KEY, When::Is(object.etag)).await?;
    }
    Ok(())
}

/// Gives a sign of life; says whether the lock is still ours, as far as anybody knows.
async fn renew(cloud: &dyn Cloud, bucket: &str, held: &mut Held, now: u64) -> bool {
    held.holder.renewed = now;
    let bytes = serde_json::to_vec(&held.holder).expect("it is made of texts and numbers");
    match cloud.put(bucket, KEY, bytes, When::Is(held.etag.clone())).await {
        Ok(etag) => held.etag = etag,
        // A write whose answer was lost has changed the mark: then the object is ours all the same.
        Err(error) if error.is_conflict() => match cloud.get(bucket, KEY).await {
            Ok(Some(object)) if read(&object.bytes).is_some_and(|o| o.id == held.holder.id) => {
                held.etag = object.etag;
            }
            Ok(_) => return false,
            Err(_) => {}
        },
        // The next sign of life is soon enough.
        Err(_) => {}
    }
    true
}
