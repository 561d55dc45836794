// Package promises holds what docs/operate/threat-model.md promises: each row's tests exist, and
// for each row there is a mutation, the mend taken out, with which one of those tests fails.
// Command mutate takes the mends out and sees the tests fail. It also checks
// docs/reference/reasons.md against the reasons in the code, and the files that CONTRIBUTING.md
// names.
package promises
