// Package connections bounds how many connections are open at once, and how many calls on
// them that no other limit bounds, such as health checks.
//
//	set := connections.New(connections.Options{Most: 4096, Exempt: 4096, ExemptEach: 64})
//	listener = set.Listen(listener)
//	connections.Of(addr).Know() // a call of a known caller came on it
//
// Who comes last is not turned away for those who came before and do nothing: beyond the
// bound an unneeded connection is closed. That is the oldest of those on which nobody
// has been heard out, as long as they are a quarter or more of all; else the one that was idle
// longest, about. So a health check that comes on a connection of its own is answered however
// many are held open, and callers who are known keep theirs while others open many.
package connections
