//! Which variables hold secrets.

/// Inside a name, wherever they stand.
const ANYWHERE: &[&str] =
    &["TOKEN", "SECRET", "PASSWORD", "PASSWD", "PASSPHRASE", "CREDENTIAL", "APIKEY", "PRIVATEKEY", "ACCESSKEY"];
/// As a whole part of a name: `PWD` and `KEYBOARD` must not match.
const WHOLE: &[&str] =
    &["KEY", "PASS", "PAT", "AUTH", "COOKIE", "JWT", "BEARER", "SIGNATURE", "SAS", "DSN", "CONNSTR", "PIN", "OTP"];
/// Named like a secret, and known to be none.
const HARMLESS: &[&str] = &["LEDGER_TOKEN", "SSH_AUTH_SOCK", "GPG_KEY_ID", "XDG_SESSION_PATH"];
/// Values that switches have; to hide them would blank every `true` of the output.
const SWITCHES: &[&str] =
    &["true", "false", "null", "none", "undefined", "enabled", "disabled", "auto", "default", "always", "never", "basic", "bearer"];

/// Whether a variable of this name holds something to hide.
pub fn is_secret_name(name: &str) -> bool {
    let name = name.to_ascii_uppercase();
    if HARMLESS.contains(&name.as_str()) {
        return false;
    }
    let joined: String = name.chars().filter(|c| c.is_alphanumeric()).collect();
    ANYWHERE.iter().any(|word| joined.contains(word))
        || name.split(|c: char| !c.is_alphanumeric()).any(|part| WHOLE.contains(&part))
}

/// Whether a name of any case says so by one of those words that mean nothing else.
pub(super) fn is_plainly_secret(name: &str) -> bool {
    let joined: String = name.to_ascii_uppercase().chars().filter(|c| c.is_alphanumeric()).collect();
    ANYWHERE.iter().any(|word| joined.contains(word))
}

/// The values to hide among these variables: those named like secrets, and those that `LEDGER_MASK` names or holds.
///
/// `LEDGER_MASK` (and any `LEDGER_MASK_…`) lists names of variables, apart by commas or spaces; what is no name of a variable is a value itself.
pub fn masks_of<N: AsRef<str>, V: AsRef<[u8]>>(variables: &[(N, V)]) -> Vec<Vec<u8>> {
    let value_of = |wanted: &str| variables.iter().find(|(name, _)| name.as_ref() == wanted).map(|(_, value)| value.as_ref());
    let mut masks = Vec::new();
    for (name, value) in variables {
        let (name, value) = (name.as_ref(), value.as_ref());
        if name == "LEDGER_MASK" || name.starts_with("LEDGER_MASK_") {
            let separator = |byte: &u8| matches!(byte, b',' | b' ' | b'\n' | b'\r' | b'\t');
            let items: Vec<&[u8]> = value.split(separator).filter(|item| !item.is_empty()).collect();
            let named = |item: &[u8]| std::str::from_utf8(item).ok().and_then(value_of).map(<[u8]>::to_vec);
            if !items.iter().all(|item| named(item).is_some()) {
                masks.push(value.to_vec());
            }
            masks.extend(items.iter().map(|item| named(item).unwrap_or_else(|| item.to_vec())));
        } else if is_secret_name(name) && !is_switch(value) {
            masks.push(value.to_vec());
        }
    }
    masks
}

pub(super) fn is_switch(value: &[u8]) -> bool {
    let text = String::from_utf8_lossy(value).trim().to_ascii_lowercase();
    SWITCHES.contains(&text.as_str()) || (text.len() < 6 && text.bytes().all(|byte| byte.is_ascii_digit()))
}
