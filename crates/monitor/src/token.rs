//! Secrets that let people in, made at run time by the operating system's generator.

use forebay_types::{Code, Error, Result};

/// What somebody may do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// Looks.
    Viewer,
    /// Looks and steers.
    Operator,
}

impl Role {
    /// The word for people.
    pub fn word(self) -> &'static str {
        match self {
            Role::Viewer => "viewer",
            Role::Operator => "operator",
        }
    }
}

/// A secret of 160 bits, written in hexadecimal digits.
#[derive(Clone, PartialEq, Eq)]
pub struct Token(String);

impl Token {
    /// A new one.
    pub fn generate() -> Result<Token> {
        let mut bytes = [0u8; 20];
        getrandom::fill(&mut bytes).map_err(|e| {
            Error::new(Code::Io, format!("the system's generator of random numbers failed: {e}"))
        })?;
        Ok(Token(bytes.iter().map(|b| format!("{b:02x}")).collect()))
    }

    /// As it stands in a link.
    pub fn text(&self) -> &str {
        &self.0
    }

    /// Whether it is this one; takes as long for a near miss as for a far one.
    pub fn matches(&self, other: &str) -> bool {
        let (a, b) = (self.0.as_bytes(), other.as_bytes());
        a.len() == b.len() && a.iter().zip(b).fold(0, |acc, (x, y)| acc | (x ^ y)) == 0
    }
}

/// Never shown by accident in a log.
impl std::fmt::Debug for Token {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Token(..)")
    }
}

/// Most logins remembered; the oldest goes first.
const LOGINS: usize = 256;

/// Who may come in: the two tokens of a run, and the browsers that showed one of them.
#[derive(Debug)]
pub struct Door {
    operator: Token,
    viewer: Token,
    logins: std::sync::Mutex<std::collections::VecDeque<(Token, Role)>>,
}

impl Door {
    /// New tokens.
    pub fn new() -> Result<Door> {
        Ok(Door { operator: Token::generate()?, viewer: Token::generate()?, logins: Default::default() })
    }

    /// The token of a role.
    pub fn token(&self, role: Role) -> &Token {
        match role {
            Role::Viewer => &self.viewer,
            Role::Operator => &self.operator,
        }
    }

    /// The role of a token, if it is one of ours.
    pub fn role(&self, token: &str) -> Option<Role> {
        let operator = self.operator.matches(token);
        let viewer = self.viewer.matches(token);
        if operator { Some(Role::Operator) } else { viewer.then_some(Role::Viewer) }
    }

    /// A secret for the cookie of a browser that showed a token.
    pub fn login(&self, role: Role) -> Result<Token> {
        let secret = Token::generate()?;
        let mut logins = self.logins.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        if logins.len() == LOGINS {
            logins.pop_front();
        }
        logins.push_back((secret.clone(), role));
        Ok(secret)
    }

    /// The role of a cookie, if it is one of ours.
    pub fn cookie(&self, secret: &str) -> Option<Role> {
        let logins = self.logins.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        logins.iter().fold(None, |found, (s, role)| if s.matches(secret) { Some(*role) } else { found })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_are_long_and_never_the_same() {
        let (a, b) = (Token::generate().unwrap(), Token::generate().unwrap());
        assert_eq!(a.text().len(), 40);
        assert!(
            a != b
                && a.matches(a.text())
                && !a.matches(b.text())
                && !a.matches("")
                && !a.matches(&a.text()[1..])
        );
        assert_eq!(format!("{a:?}"), "Token(..)");
    }

    #[test]
    fn each_token_opens_its_own_role() {
        let door = Door::new().unwrap();
        assert_eq!(door.role(door.token(Role::Operator).text()), Some(Role::Operator));
        assert_eq!(door.role(door.token(Role::Viewer).text()), Some(Role::Viewer));
        assert_eq!(door.role("guess"), None);
        let cookie = door.login(Role::Viewer).unwrap();
        assert_eq!(door.cookie(cookie.text()), Some(Role::Viewer));
        assert_eq!(door.role(cookie.text()), None);
        assert_eq!(door.cookie(door.token(Role::Operator).text()), None);
    }

    #[test]
    fn the_oldest_login_goes_when_there_are_too_many() {
        let door = Door::new().unwrap();
        let first = door.login(Role::Operator).unwrap();
        for _ in 0..LOGINS {
            door.login(Role::Viewer).unwrap();
        }
        assert_eq!(door.cookie(first.text()), None);
    }
}
