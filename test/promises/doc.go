// Package promises holds docs/threat-model.md to what it says: that each section of
// docs/security.md is there, and each test that is named exists.
package promises
