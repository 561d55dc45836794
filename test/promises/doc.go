// Package promises holds docs/operate/threat-model.md to what it says: that each section of
// docs/operate/security.md is there, and each test that is named exists. So it does with
// docs/reference/reasons.md and the reasons that the code gives, and with the files that
// CONTRIBUTING.md names.
package promises
