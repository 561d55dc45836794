// Package promises checks docs/operate/threat-model.md: each section of
// docs/operate/security.md that it names exists, and so does each test. It also checks
// docs/reference/reasons.md against the reasons in the code, and the files that CONTRIBUTING.md
// names.
package promises
