//! The actions, workflows and scripts of this project: read, checked, and run as the service's runner runs them.

mod examples;
mod expression;
mod files;
mod race;
mod rules;
mod runner;
mod scenes;
mod service;
mod unread;
mod workflow;
