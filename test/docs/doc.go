// Package docs holds the documentation to what is there: its links, its anchors and its
// pictures. The command test/docs/run executes what its pages tell their readers to type.
package docs
