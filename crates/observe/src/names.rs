//! Under which names a server answers.
//!
//! Problem: a page in somebody's browser may read only what comes from its own host, but who owns the page owns the name of that
//! host, and may let it lead to this server after the page was loaded (DNS rebinding); then the page reads what its visitor can
//! reach. Approach: the browser still says which name it asks, in `Host`; a name that is not this host's gets no answer (421). An
//! address leads to itself and nowhere else. Who says no name is no browser.
//!
//! This host's names are `localhost`, its own, and those that begin with its own and a dot: in which domains others find it, it need
//! not know. So whoever knows the name and owns a domain can still do it; a name that many hosts have keeps out fewer.
//!
//! Worked example: on `m1.rack.example`, `10.0.0.1:30566`, `[fd00::1]`, `localhost:30566`, `m1`, `m1.rack.example` and `M1.example.`
//! are answered, `m10`, `rack.example` and `page.example` are not.

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
    /// The first part of its name in small letters; none where it has no name of its own.
    own: Option<String>,
}

impl Names {
    /// Those of the host that this runs on.
    pub(crate) fn of_this_host() -> Self {
        // Where it cannot be read, addresses and `localhost` are left.
        Self::of(&std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default())
    }

    fn of(host: &str) -> Self {
        let own = host.trim().split('.').next().unwrap_or_default().to_ascii_lowercase();
        // The kernel says `(none)` where nobody gave it a name.
        Self { own: Some(own).filter(|own| !matches!(own.as_str(), "" | "localhost" | "(none)")) }
    }

    /// Whether what a client asks for, `HOST` or `HOST:PORT`, is this host.
    fn include(&self, asked: &str) -> bool {
        let Ok(authority) = asked.parse::<Authority>() else { return false };
        let host = authority.host().to_ascii_lowercase();
        let bare = host.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or(&host);
        let name = host.strip_suffix('.').unwrap_or(&host);
        let is_own =
            |own: &String| name.strip_prefix(own.as_str()).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'));
        bare.parse::<IpAddr>().is_ok() || name == "localhost" || self.own.as_ref().is_some_and(is_own)
    }

    /// What is asked under another name gets no answer.
    pub(crate) fn guard(self, router: Router) -> Router {
        router.layer(from_fn_with_state(self, check))
    }
}

/// Which name it is must not be said: the page would come again under one that begins with it.
const REFUSAL: &str = "this server is asked by a name that is not its own\n\
                       hint: ask for its address, `localhost`, or the name of its host, alone or with a domain\n";

async fn check(State(names): State<Names>, request: Request, next: Next) -> Response {
    let reported = |value: &HeaderValue| value.to_str().is_ok_and(|asked| names.include(asked));
    let absolute = request.uri().authority().is_none_or(|asked| names.include(asked.as_str()));
    if absolute && request.headers().get_all(HOST).iter().all(reported) {
        next.run(request).await
    } else {
        (StatusCode::MISDIRECTED_REQUEST, HEADERS, REFUSAL).into_response()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_is_asked_by_its_addresses_and_names() {
        let names = Names::of("m1.rack.example\n");
        for asked in [
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
            assert!(names.include(asked), "{asked}");
        }
        for asked in [
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
            assert!(!names.include(asked), "{asked}");
        }
    }

    /// `localhost.page.example` may lead anywhere, whatever a host calls itself.
    #[test]
    fn a_host_without_a_name_of_its_own_has_addresses() {
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
