//! From the keys of a network to a [`Graph`]: names resolved, sizes bounded.
//!
//! The size of a network is computed before anything is built.
//!
//! | module | reads |
//! |---|---|
//! | `topology` | `topology:` with its parameters |
//! | `explicit` | hosts, switches and links one by one |
//! | `queue` | queues and links |

mod explicit;
mod queue;
mod topology;

pub use queue::{can_be_simulated, links_have};

use crate::language::{MAX_DELAY, MAX_HOSTS};
use crate::topology::Size;
use weir_document::{Field, Node, Problems, Span, Suggester, scalar};
use weir_units::{Bytes, Duration};

/// Reads networks and their parts. What cannot be read is reported to `problems`.
pub struct NetworkReader<'a> {
    problems: &'a mut Problems,
    suggester: Suggester,
    memory: Option<Bytes>,
}

impl<'a> NetworkReader<'a> {
    /// A reader that refuses networks of which a run would need more than `memory`.
    pub fn new(problems: &'a mut Problems, memory: Option<Bytes>) -> Self {
        Self { problems, suggester: Suggester::default(), memory }
    }

    fn error(&mut self, span: Span, cause: impl Into<String>, hint: impl Into<String>) {
        self.problems.error(span, cause, hint);
    }

    /// A time above zero and at most `most`.
    pub fn time(&mut self, node: &Node, key: &str, most: Duration) -> Field<Duration> {
        let field = node.field(key, |text| scalar::time(text, false));
        if let Field::Value(time, span) = field
            && time > most
        {
            self.error(span, format!("the {key} {time} is longer than {most}"), format!("write at most {most}"));
            return Field::Bad;
        }
        field
    }

    /// A link's delay.
    pub fn delay(&mut self, node: &Node) -> Field<Duration> {
        self.time(node, "delay", MAX_DELAY)
    }

    /// Whether a network of this size may be built; `what` names it in messages.
    pub fn fits(&mut self, size: Size, at: Span, what: &str) -> bool {
        let Size { hosts, switches, links, .. } = size;
        let parts = format!("{what} has {hosts} hosts, {links} links and {switches} switches");
        if hosts > MAX_HOSTS {
            self.error(at, format!("{parts}: more than {MAX_HOSTS} hosts"), "make it smaller");
            return false;
        }
        let needed = size.memory();
        if let Some(memory) = self.memory.filter(|memory| needed > *memory) {
            // Megabytes are exact enough for an estimate.
            let megabytes = |bytes: Bytes| Bytes::new(bytes.get().div_ceil(1_000_000) * 1_000_000);
            self.error(
                at,
                format!(
                    "{parts}, about {} of memory: more than the {} that may be used",
                    megabytes(needed),
                    megabytes(memory)
                ),
                "make it smaller, or run it on a machine with more memory",
            );
            return false;
        }
        true
    }
}
