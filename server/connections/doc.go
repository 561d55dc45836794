// Package connections limits how many connections are open, and how many calls on them that
// have no other limit, such as health checks and unread responses of HTTP/2.
//
//	set := connections.New(connections.Options{Most: 4096, Exempt: 4096, ExemptEach: 64})
//	listener = set.Listen(listener)
//	connections.Of(addr).Know() // a call of an authenticated caller arrived on it
//
// Idle connections do not keep out new ones: beyond the limit the set closes the connection
// that is needed least. While a quarter or more of the connections have not received a
// complete message of an authenticated caller, that is the oldest of them; otherwise it is,
// approximately, the one that was idle longest. So a health check on a new connection succeeds
// however many connections are held open, and authenticated callers keep their connections
// while others open many.
package connections
