//! The state of a screen, which keys change.

use super::rows::{Filter, Order};
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyEventKind, KeyModifiers};
use weir_units::Direction;

/// The shown part of a view.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct State {
    pub(crate) order: Order,
    pub(crate) filter: Filter,
    /// Whether keys go into the filter.
    pub(crate) typing: bool,
    /// The first service that is shown.
    pub(crate) top: usize,
    /// Whether the screen is paused.
    pub(crate) paused: bool,
    /// Whether the help is shown.
    pub(crate) help: bool,
}

/// The effect of a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Next {
    Go,
    Quit,
}

/// The keys with their effects.
pub(crate) const KEYS: &[(&str, &str)] = &[
    ("q", "quit"),
    ("s", "sort"),
    ("d", "direction"),
    ("/", "filter"),
    ("↑↓", "scroll"),
    ("space", "pause"),
    ("?", "help"),
];

impl State {
    /// Handles one key; `page` is the number of services that fit.
    pub(crate) fn on_key(&mut self, key: KeyEvent, page: usize) -> Next {
        if key.kind == KeyEventKind::Release {
            return Next::Go;
        }
        if key.modifiers.contains(KeyModifiers::CONTROL) {
            return if key.code == KeyCode::Char('c') { Next::Quit } else { Next::Go };
        }
        if self.typing {
            self.on_filter_key(key.code);
            return Next::Go;
        }
        match key.code {
            KeyCode::Char('q') => return Next::Quit,
            KeyCode::Esc if self.help => self.help = false,
            KeyCode::Esc => (self.filter.words, self.top) = (String::new(), 0),
            KeyCode::Char('s') => (self.order, self.top) = (self.order.next(), 0),
            KeyCode::Char('d') => {
                self.filter.direction = match self.filter.direction {
                    None => Some(Direction::Tx),
                    Some(Direction::Tx) => Some(Direction::Rx),
                    Some(Direction::Rx) => None,
                };
                self.top = 0;
            }
            KeyCode::Char('/') => self.typing = true,
            KeyCode::Char(' ') => self.paused = !self.paused,
            KeyCode::Char('?' | 'h') => self.help = !self.help,
            KeyCode::Down | KeyCode::Char('j') => self.top += 1,
            KeyCode::Up | KeyCode::Char('k') => self.top = self.top.saturating_sub(1),
            KeyCode::PageDown => self.top += page,
            KeyCode::PageUp => self.top = self.top.saturating_sub(page),
            KeyCode::Home => self.top = 0,
            KeyCode::End => self.top = usize::MAX,
            _ => {}
        }
        Next::Go
    }

    fn on_filter_key(&mut self, code: KeyCode) {
        match code {
            KeyCode::Enter => self.typing = false,
            KeyCode::Esc => (self.typing, self.filter.words) = (false, String::new()),
            KeyCode::Backspace => drop(self.filter.words.pop()),
            KeyCode::Char(c) => self.filter.words.push(c),
            _ => {}
        }
        self.top = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn press(state: &mut State, keys: &[KeyCode]) -> Next {
        let press = |next, code: &KeyCode| match next {
            Next::Quit => next,
            Next::Go => state.on_key(KeyEvent::from(*code), 10),
        };
        keys.iter().fold(Next::Go, press)
    }

    #[test]
    fn keys_sort_filter_and_scroll() {
        let mut state = State::default();
        let c = KeyCode::Char;
        press(&mut state, &[c('s'), KeyCode::Down, KeyCode::Down, KeyCode::Up]);
        assert_eq!((state.order, state.top), (Order::Limited, 1));
        press(&mut state, &[c('d')]);
        assert_eq!((state.filter.direction, state.top), (Some(Direction::Tx), 0));
        // While the filter is edited, letters are letters.
        let quits = press(&mut state, &[c('/'), c('q'), c('s'), KeyCode::Backspace, KeyCode::Enter]);
        assert_eq!((quits, state.filter.words.as_str(), state.typing), (Next::Go, "q", false));
        press(&mut state, &[KeyCode::Esc, c(' '), c('?')]);
        assert!(state.filter.words.is_empty() && state.paused && state.help);
        press(&mut state, &[KeyCode::Esc, KeyCode::PageDown, KeyCode::End, KeyCode::PageUp]);
        assert!(!state.help && state.top > 10);
        assert_eq!(press(&mut state, &[c('q')]), Next::Quit);
        let interrupt = KeyEvent::new(c('c'), KeyModifiers::CONTROL);
        assert_eq!(State { typing: true, ..State::default() }.on_key(interrupt, 1), Next::Quit);
    }
}
