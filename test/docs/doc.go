// Package docs tests the links, anchors and pictures of the documentation, and the figures of
// README. The command test/docs/run executes the commands on its pages.
package docs
