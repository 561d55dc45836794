// Package docs holds the documentation to what is there: its links, its anchors, its pictures, and
// the figures of README. The command test/docs/run executes what its pages tell their readers to
// type.
package docs
