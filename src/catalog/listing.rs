//! Lists that DataFusion wants at once and the service gives over time.

use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};

use crate::client::background;
use crate::error::Result;
use futures::future::BoxFuture;
use parking_lot::Mutex;

/// A list younger than this is given out as it is.
const FRESH: Duration = Duration::from_secs(60);
/// How long a caller that has no list at all is kept waiting.
const PATIENCE: Duration = Duration::from_secs(20);

type Fetch<T> = Box<dyn Fn() -> BoxFuture<'static, Result<Vec<T>>> + Send + Sync>;

/// A list of names that is fetched when needed.
pub(super) struct Listing<T> {
    /// For messages: `tables of p.d`.
    what: String,
    fetch: Fetch<T>,
    state: Mutex<State<T>>,
}

struct State<T> {
    items: Option<(Instant, Arc<Vec<T>>)>,
    renewing: bool,
}

impl<T> std::fmt::Debug for Listing<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Listing")
            .field("what", &self.what)
            .finish_non_exhaustive()
    }
}

impl<T: Send + Sync + 'static> Listing<T> {
    pub(super) fn new(what: String, fetch: Fetch<T>) -> Arc<Self> {
        let state = Mutex::new(State {
            items: None,
            renewing: false,
        });
        Arc::new(Self { what, fetch, state })
    }

    /// The list as it is known, without asking anyone.
    pub(super) fn known(&self) -> Option<Arc<Vec<T>>> {
        let state = self.state.lock();
        state.items.as_ref().map(|(_, items)| Arc::clone(items))
    }

    /// The list as the service has it now.
    pub(super) async fn fetch(&self) -> Result<Arc<Vec<T>>> {
        let items = Arc::new((self.fetch)().await?);
        self.state.lock().items = Some((Instant::now(), Arc::clone(&items)));
        Ok(items)
    }

    /// The list, at most a minute old or being renewed. The first caller waits;
    /// a list that cannot be had is empty and a warning.
    pub(super) fn get(self: &Arc<Self>) -> Arc<Vec<T>> {
        let (known, stale) = {
            let mut state = self.state.lock();
            let known = state.items.clone();
            let stale = known
                .as_ref()
                .is_none_or(|(since, _)| since.elapsed() >= FRESH);
            let renew = stale && !state.renewing;
            state.renewing |= renew;
            (known.map(|(_, items)| items), renew)
        };
        if let (Some(known), false) = (&known, stale) {
            return Arc::clone(known);
        }
        let answer = self.renew();
        match known {
            Some(known) => known,
            None => self.wait(&answer),
        }
    }

    /// Starts to fetch the list in the background.
    fn renew(self: &Arc<Self>) -> mpsc::Receiver<Result<Arc<Vec<T>>>> {
        let (sender, receiver) = mpsc::sync_channel(1);
        let listing = Arc::clone(self);
        let to_listing = sender.clone();
        let spawned = background::spawn(async move {
            let answer = listing.fetch().await;
            listing.state.lock().renewing = false;
            // Nobody listens where an older list was good enough.
            let _ = to_listing.send(answer);
        });
        if let Err(error) = spawned {
            self.state.lock().renewing = false;
            let _ = sender.send(Err(error));
        }
        receiver
    }

    fn wait(&self, answer: &mpsc::Receiver<Result<Arc<Vec<T>>>>) -> Arc<Vec<T>> {
        background::wait(answer, PATIENCE).unwrap_or_else(|error| {
            tracing::warn!(what = %self.what, %error, "a list is shown empty");
            Arc::default()
        })
    }
}

/// The name that `wanted` means: itself, or the only one that differs in case.
pub(super) fn resolve<'a>(
    names: impl Iterator<Item = &'a str> + Clone,
    wanted: &str,
) -> Option<&'a str> {
    if let Some(exact) = names.clone().find(|name| *name == wanted) {
        return Some(exact);
    }
    let folded = wanted.to_lowercase();
    let mut alike = names.filter(|name| name.to_lowercase() == folded);
    let only = alike.next()?;
    alike.next().is_none().then_some(only)
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;
    use crate::error::{Error, ErrorKind};

    #[test]
    fn e01_exact_before_the_only_alike() {
        let names = ["MyData", "other", "OTHER"];
        assert_eq!(resolve(names.into_iter(), "MyData"), Some("MyData"));
        assert_eq!(resolve(names.into_iter(), "mydata"), Some("MyData"));
        assert_eq!(resolve(names.into_iter(), "other"), Some("other"));
        assert_eq!(resolve(names.into_iter(), "Other"), None);
        assert_eq!(resolve(names.into_iter(), "none"), None);
    }

    #[test]
    fn a_list_is_fetched_once() {
        let calls = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&calls);
        let listing = Listing::new(
            "numbers".to_string(),
            Box::new(move || {
                let call = counted.fetch_add(1, Ordering::SeqCst);
                Box::pin(async move { Ok(vec![call]) })
            }),
        );
        assert_eq!(listing.known(), None);
        assert_eq!(*listing.get(), [0]);
        assert_eq!(*listing.get(), [0]);
        assert_eq!(calls.load(Ordering::SeqCst), 1);
    }

    #[test]
    fn a_list_that_fails_is_empty_and_asked_for_again() {
        let calls = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&calls);
        let listing: Arc<Listing<u8>> = Listing::new(
            "nothing".to_string(),
            Box::new(move || {
                counted.fetch_add(1, Ordering::SeqCst);
                Box::pin(async { Err(Error::new(ErrorKind::PermissionDenied, "no")) })
            }),
        );
        assert!(listing.get().is_empty());
        assert!(listing.get().is_empty());
        assert_eq!(calls.load(Ordering::SeqCst), 2);
    }
}
