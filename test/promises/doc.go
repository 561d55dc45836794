// Package promises holds docs/operate/threat-model.md to what it says: that each section of
// docs/operate/security.md is there, and each test that is named exists.
package promises
