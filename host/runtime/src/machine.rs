//! The name of the machine, which in a pod is the pod's: by it, people find the process.

/// Without a name, `stagegate`.
pub fn machine() -> String {
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname").or_else(|_other| std::env::var("HOSTNAME"));
    let name = name.map(|name| name.trim().to_owned()).unwrap_or_default();
    if name.is_empty() { "stagegate".to_owned() } else { name }
}
