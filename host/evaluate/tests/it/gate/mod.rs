//! Gates: what is refused before it runs, what a guest cannot do, and what its answers may be. The guests are real components.

mod guests;
mod hostile;
mod old;
mod refused;
mod requests;
mod schema;
mod verdicts;
