//! Host names that the server accepts: protection from DNS rebinding.
//!
//! Problem: a browser lets a page read only responses of the page's own host. The owner of the page
//! also controls the DNS entry of that host, and can change it to the address of this server after
//! the page has been loaded. The page can then read what its visitor can reach. Approach: the
//! browser still sends the page's host name in the `Host` field. A request for a name that is not
//! this host's is refused (421). Requests for an IP address cannot be rebound and are accepted; a
//! request without `Host` does not come from a browser.
//!
//! The names of this host are `localhost`, its own name, and names that consist of its own name, a
//! dot and any domain, since the server does not have the domains under which it is reachable.
//!
//! Limit: an attacker with a domain and the host's name can still rebind. A common host name
//! protects less.
//!
//! Worked example: on `m1.rack.example`, `10.0.0.1:30566`, `[fd00::1]`, `localhost:30566`, `m1`,
//! `m1.rack.example` and `M1.example.` are accepted; `m10`, `rack.example` and `page.example` are
//! refused.

use crate::publish::HEADERS;
use axum::Router;
use axum::extract::{Request, State};
use axum::http::header::HOST;
use axum::http::uri::Authority;
use axum::http::{HeaderValue, StatusCode};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use std::net::IpAddr;

/// The names of a host.
#[derive(Debug, Clone)]
pub(crate) struct Names {
    /// The first label of its name in lower case; `None` if it has no name of its own.
    own: Option<String>,
}

impl Names {
    /// The names of the host on which the process runs.
    pub(crate) fn of_this_host() -> Self {
        // If the name cannot be read, only addresses and `localhost` are accepted.
        Self::of(&std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default())
    }

    fn of(host: &str) -> Self {
        let own = host.trim().split('.').next().unwrap_or_default().to_ascii_lowercase();
        // The kernel's default name is `(none)`.
        Self { own: Some(own).filter(|own| !matches!(own.as_str(), "" | "localhost" | "(none)")) }
    }

    /// Whether `requested`, `HOST` or `HOST:PORT`, is this host.
    fn include(&self, requested: &str) -> bool {
        let Ok(authority) = requested.parse::<Authority>() else { return false };
        let host = authority.host().to_ascii_lowercase();
        let bare = host.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or(&host);
        let name = host.strip_suffix('.').unwrap_or(&host);
        let is_own =
            |own: &String| name.strip_prefix(own.as_str()).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'));
        bare.parse::<IpAddr>().is_ok() || name == "localhost" || self.own.as_ref().is_some_and(is_own)
    }

    /// Refuses requests for other names.
    pub(crate) fn guard(self, router: Router) -> Router {
        router.layer(from_fn_with_state(self, check))
    }
}

/// Does not contain the host's name: the page could return under a name that begins with it.
const REFUSAL: &str = "the requested host name is not a name of this server\n\
                       hint: use its address, `localhost`, or the name of its host, alone or with a domain\n";

async fn check(State(names): State<Names>, request: Request, next: Next) -> Response {
    let accepted = |value: &HeaderValue| value.to_str().is_ok_and(|host| names.include(host));
    let absolute = request.uri().authority().is_none_or(|host| names.include(host.as_str()));
    if absolute && request.headers().get_all(HOST).iter().all(accepted) {
        next.run(request).await
    } else {
        (StatusCode::MISDIRECTED_REQUEST, HEADERS, REFUSAL).into_response()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_and_own_names_are_accepted() {
        let names = Names::of("m1.rack.example\n");
        for requested in [
            "10.0.0.1:30566",
            "127.0.0.1",
            "[fd00::1]",
            "[::1]:80",
            "localhost:30566",
            "LOCALHOST",
            "m1",
            "m1:9",
            "M1.rack.example",
            "m1.other.example.:80",
        ] {
            assert!(names.include(requested), "{requested}");
        }
        for requested in [
            "",
            "page.example",
            "m10",
            "xm1",
            "m1x.example",
            "localhost.page.example",
            "10.0.0.1.page.example",
            "rack.example",
            "[fd00::1",
            "a b",
            "m1@page.example",
        ] {
            assert!(!names.include(requested), "{requested}");
        }
    }

    /// `localhost.page.example` may resolve to any address, also if the host's name is `localhost`.
    #[test]
    fn unnamed_host_accepts_addresses_and_localhost_only() {
        for host in ["", "localhost\n", "localhost.localdomain", "(none)"] {
            let names = Names::of(host);
            assert!(names.include("localhost") && names.include("10.0.0.1:1"), "{host}");
            assert!(
                !names.include("localhost.page.example") && !names.include("page.example") && !names.include(".x"),
                "{host}"
            );
        }
    }
}
