//! The only retry loop of the library.
//!
//! Whoever repeats something asks a [`Backoff`] after each failure: it either
//! waits and lets the next attempt happen, or hands the error back. Attempts
//! count only while nothing comes of them; progress starts the count anew.

use std::fmt;
use std::future::Future;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures::future::BoxFuture;

use crate::error::{Effect, Error, ErrorKind, Result, RetryAdvice};

/// Time and chance, so that tests need neither.
pub trait Clock: fmt::Debug + Send + Sync {
    /// The present.
    fn now(&self) -> Instant;

    /// Ends after `duration`.
    fn sleep(&self, duration: Duration) -> BoxFuture<'static, ()>;

    /// A number from 0 to 1 that differs from call to call, to keep clients
    /// that failed together from coming back together.
    fn chance(&self) -> f64;
}

/// The clock of this machine.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    fn now(&self) -> Instant {
        Instant::now()
    }

    fn sleep(&self, duration: Duration) -> BoxFuture<'static, ()> {
        Box::pin(tokio::time::sleep(duration))
    }

    fn chance(&self) -> f64 {
        rand::random()
    }
}

/// How often and how long to try.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RetryPolicy {
    /// Attempts in a row without progress, the first one included.
    pub max_attempts: u32,
    /// The wait after the first failure, before jitter.
    pub initial_delay: Duration,
    /// By how much each wait is longer than the one before.
    pub multiplier: f64,
    /// No wait is longer than this, before jitter.
    pub max_delay: Duration,
    /// From the first failure since progress, no attempt starts later than this.
    pub max_elapsed: Duration,
}

impl RetryPolicy {
    /// For a single request and its answer.
    pub const REQUEST: RetryPolicy = RetryPolicy {
        max_attempts: 6,
        initial_delay: Duration::from_millis(200),
        multiplier: 2.0,
        max_delay: Duration::from_secs(10),
        max_elapsed: Duration::from_secs(300),
    };

    /// For a single request to a local server: one that does not answer is
    /// more likely stopped than overloaded, and the user is waiting.
    pub const LOCAL_REQUEST: RetryPolicy = RetryPolicy {
        max_attempts: 4,
        initial_delay: Duration::from_millis(50),
        ..RetryPolicy::REQUEST
    };

    /// For a change of a table that another one may come before. Writers of one table
    /// make the same changes, so few rounds leave nothing to change.
    pub const CHANGE: RetryPolicy = RetryPolicy {
        max_attempts: 20,
        initial_delay: Duration::from_millis(50),
        multiplier: 1.5,
        max_delay: Duration::from_secs(5),
        max_elapsed: Duration::from_secs(300),
    };

    /// For a read stream, as Google's clients do it, with a bound on attempts.
    pub const fn stream(max_attempts: u32) -> RetryPolicy {
        RetryPolicy {
            max_attempts,
            initial_delay: Duration::from_millis(100),
            multiplier: 1.3,
            max_delay: Duration::from_secs(60),
            max_elapsed: Duration::from_secs(24 * 3600),
        }
    }
}

/// Decides after each failure whether there is another attempt, and waits for
/// its time.
#[derive(Debug)]
pub struct Backoff {
    policy: RetryPolicy,
    clock: Arc<dyn Clock>,
    failures: u32,
    first_failure: Option<Instant>,
}

impl Backoff {
    /// Before the first attempt.
    pub fn new(policy: RetryPolicy, clock: Arc<dyn Clock>) -> Self {
        Backoff {
            policy,
            clock,
            failures: 0,
            first_failure: None,
        }
    }

    /// Something came of the last attempt: the count starts anew.
    pub fn progressed(&mut self) {
        self.failures = 0;
        self.first_failure = None;
    }

    /// How many attempts failed since there was progress.
    pub fn failures(&self) -> u32 {
        self.failures
    }

    /// Waits for the time of the next attempt.
    ///
    /// # Errors
    /// `error` itself, when another attempt cannot help or none is left.
    pub async fn after(&mut self, error: Error) -> Result<()> {
        self.failures = self.failures.saturating_add(1);
        let now = self.clock.now();
        let first = *self.first_failure.get_or_insert(now);
        let delay = match error.retry_advice() {
            RetryAdvice::Never => return Err(error),
            RetryAdvice::Backoff => self.delay(self.policy_for(&error)),
            // Coming back early would be refused again, so chance only adds.
            RetryAdvice::After(told) => {
                told.saturating_add(told.mul_f64(0.25 * self.clock.chance().clamp(0.0, 1.0)))
            }
        };
        let policy = self.policy_for(&error);
        let too_late =
            now.saturating_duration_since(first).saturating_add(delay) > policy.max_elapsed;
        if self.failures >= policy.max_attempts || too_late {
            return Err(match self.failures {
                1 => error,
                failures => error.with_context(format!("gave up after {failures} attempts")),
            });
        }
        tracing::debug!(%error, attempt = self.failures, ?delay, "trying again");
        self.clock.sleep(delay).await;
        Ok(())
    }

    /// A local server that says "too many" is there, and means it as the service does.
    fn policy_for(&self, error: &Error) -> RetryPolicy {
        match error.kind() {
            ErrorKind::ResourceExhausted if self.policy == RetryPolicy::LOCAL_REQUEST => {
                RetryPolicy::REQUEST
            }
            _ => self.policy,
        }
    }

    /// The exponential wait, a quarter more or less.
    fn delay(&self, policy: RetryPolicy) -> Duration {
        let exponent = i32::try_from(self.failures - 1).unwrap_or(i32::MAX);
        let seconds = policy.initial_delay.as_secs_f64() * policy.multiplier.powi(exponent);
        let bounded = seconds.min(policy.max_delay.as_secs_f64());
        Duration::from_secs_f64(bounded * (0.75 + 0.5 * self.clock.chance().clamp(0.0, 1.0)))
    }
}

/// Decides how long to wait before something that takes its time is looked at
/// again: a fifth of the time waited so far, within bounds, a quarter more or less. So
/// an end is seen little later than it comes, and looks get rare where it is far away.
#[derive(Debug)]
pub struct Pace {
    first: Duration,
    waited: Duration,
    longest: Duration,
    clock: Arc<dyn Clock>,
}

impl Pace {
    /// Before the first look.
    pub fn new(first: Duration, longest: Duration, clock: Arc<dyn Clock>) -> Self {
        Pace {
            first: first.min(longest),
            waited: Duration::ZERO,
            longest,
            clock,
        }
    }

    /// Waits for the time of the next look.
    pub async fn wait(&mut self) {
        let chance = self.clock.chance().clamp(0.0, 1.0);
        let delay = (self.waited / 5).clamp(self.first, self.longest);
        let delay = delay.mul_f64(0.75 + 0.5 * chance);
        self.waited = self.waited.saturating_add(delay);
        self.clock.sleep(delay).await;
    }
}

/// Repeats `attempt` until it succeeds or its error is final.
///
/// # Errors
/// The last error.
pub async fn retry<T, F>(
    policy: RetryPolicy,
    clock: &Arc<dyn Clock>,
    mut attempt: impl FnMut() -> F,
) -> Result<T>
where
    F: Future<Output = Result<T>>,
{
    let mut backoff = Backoff::new(policy, Arc::clone(clock));
    let mut lost_answer = false;
    loop {
        match attempt().await {
            Ok(value) => return Ok(value),
            Err(error) => {
                // What an attempt may have done stays so, whatever becomes of later ones.
                lost_answer |= error.may_have_applied();
                let error = match lost_answer {
                    true => error.with_effect(Effect::Unknown),
                    false => error,
                };
                backoff.after(error).await?;
            }
        }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::error::ErrorKind;
    use parking_lot::Mutex;

    /// A clock that waits by adding, and remembers what it waited.
    #[derive(Debug)]
    pub(crate) struct FakeClock {
        start: Instant,
        chance: f64,
        waits: Arc<Mutex<Vec<Duration>>>,
    }

    impl FakeClock {
        pub(crate) fn new(chance: f64) -> Arc<Self> {
            Arc::new(FakeClock {
                start: Instant::now(),
                chance,
                waits: Arc::default(),
            })
        }

        pub(crate) fn waits(&self) -> Vec<Duration> {
            self.waits.lock().clone()
        }
    }

    impl Clock for FakeClock {
        fn now(&self) -> Instant {
            self.start + self.waits.lock().iter().sum::<Duration>()
        }

        fn sleep(&self, duration: Duration) -> BoxFuture<'static, ()> {
            self.waits.lock().push(duration);
            Box::pin(std::future::ready(()))
        }

        fn chance(&self) -> f64 {
            self.chance
        }
    }

    fn unavailable() -> Error {
        Error::new(ErrorKind::Unavailable, "down")
    }

    async fn fail_always(policy: RetryPolicy, clock: &Arc<FakeClock>) -> (u32, Error) {
        let mut attempts = 0;
        let clock: Arc<dyn Clock> = Arc::clone(clock) as _;
        let error = retry(policy, &clock, || {
            attempts += 1;
            async { Err::<(), _>(unavailable()) }
        })
        .await
        .unwrap_err();
        (attempts, error)
    }

    #[tokio::test]
    async fn r02_attempts_and_waits_are_exact() {
        let clock = FakeClock::new(0.5);
        let policy = RetryPolicy {
            max_attempts: 5,
            initial_delay: Duration::from_millis(100),
            multiplier: 2.0,
            max_delay: Duration::from_millis(300),
            max_elapsed: Duration::from_secs(60),
        };
        let (attempts, error) = fail_always(policy, &clock).await;
        assert_eq!(attempts, 5);
        assert_eq!(
            clock.waits(),
            [100, 200, 300, 300].map(Duration::from_millis)
        );
        assert_eq!(error.to_string(), "gave up after 5 attempts: down");
    }

    #[tokio::test]
    async fn jitter_is_a_quarter_either_way() {
        for (chance, milliseconds) in [(0.0, 75), (1.0, 125), (7.0, 125), (-1.0, 75)] {
            let clock = FakeClock::new(chance);
            let policy = RetryPolicy {
                max_attempts: 2,
                ..RetryPolicy::stream(2)
            };
            fail_always(policy, &clock).await;
            assert_eq!(clock.waits(), [Duration::from_millis(milliseconds)]);
        }
    }

    #[tokio::test]
    async fn looks_are_further_and_further_apart() {
        let clock = FakeClock::new(0.5);
        let (first, longest) = (Duration::from_secs(1), Duration::from_secs(2));
        let mut pace = Pace::new(first, longest, Arc::clone(&clock) as _);
        for _ in 0..11 {
            pace.wait().await;
        }
        let waits = clock.waits();
        assert_eq!(waits[..6], [first; 6]);
        assert_eq!(
            waits[6..9],
            [1_200, 1_440, 1_728].map(Duration::from_millis)
        );
        assert_eq!(waits[9..], [longest; 2]);
    }

    #[tokio::test]
    async fn what_is_final_is_tried_once() {
        let clock: Arc<dyn Clock> = FakeClock::new(0.5);
        let mut attempts = 0;
        let error = retry(RetryPolicy::REQUEST, &clock, || {
            attempts += 1;
            async { Err::<(), _>(Error::new(ErrorKind::PermissionDenied, "no")) }
        })
        .await
        .unwrap_err();
        assert_eq!(attempts, 1);
        assert_eq!(error.to_string(), "no");
    }

    #[tokio::test]
    async fn a_success_ends_it() {
        let clock: Arc<dyn Clock> = FakeClock::new(0.5);
        let mut attempts = 0;
        let value = retry(RetryPolicy::REQUEST, &clock, || {
            attempts += 1;
            let outcome = if attempts < 3 {
                Err(unavailable())
            } else {
                Ok(attempts)
            };
            async { outcome }
        })
        .await
        .unwrap();
        assert_eq!(value, 3);
    }

    #[tokio::test]
    async fn the_service_may_say_when_to_come_back() {
        let clock = FakeClock::new(0.5);
        let mut backoff = Backoff::new(RetryPolicy::stream(25), Arc::clone(&clock) as _);
        let told = Error::new(ErrorKind::ResourceExhausted, "busy")
            .with_retry(RetryAdvice::After(Duration::from_secs(8)));
        backoff.after(told).await.unwrap();
        assert_eq!(clock.waits(), [Duration::from_secs(9)]);
    }

    #[tokio::test]
    async fn a_wait_beyond_all_bounds_is_not_begun() {
        let clock = FakeClock::new(0.5);
        let mut backoff = Backoff::new(RetryPolicy::stream(25), Arc::clone(&clock) as _);
        let told = Error::new(ErrorKind::ResourceExhausted, "busy")
            .with_retry(RetryAdvice::After(Duration::MAX));
        assert_eq!(backoff.after(told).await.unwrap_err().to_string(), "busy");
        assert!(clock.waits().is_empty());
    }

    #[tokio::test]
    async fn progress_starts_the_count_anew() {
        let clock = FakeClock::new(0.5);
        let mut backoff = Backoff::new(RetryPolicy::stream(2), Arc::clone(&clock) as _);
        for _ in 0..10 {
            backoff.after(unavailable()).await.unwrap();
            assert_eq!(backoff.failures(), 1);
            backoff.progressed();
        }
        backoff.after(unavailable()).await.unwrap();
        backoff.after(unavailable()).await.unwrap_err();
    }

    #[tokio::test]
    async fn no_attempt_starts_after_the_time_allowed() {
        let clock = FakeClock::new(0.5);
        let policy = RetryPolicy {
            max_attempts: 1000,
            initial_delay: Duration::from_secs(10),
            multiplier: 1.0,
            max_delay: Duration::from_secs(10),
            max_elapsed: Duration::from_secs(35),
        };
        let (attempts, _) = fail_always(policy, &clock).await;
        assert_eq!(attempts, 4);
    }
}
