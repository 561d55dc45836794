// Package unfinished bounds what callers have begun to send and have not finished, so
// that whoever withholds the rest takes neither memory nor places from others.
//
//	m := unfinished.New(unfinished.Options{Bytes: 64 << 20, Bodies: 8192})
//	listener = m.Listen(listener)           // connections count what is read from them
//	conn = unfinished.ConnOf(addr).Frames(conn) // what is held of messages on one of them
//	unfinished.ConnOf(addr).Answers().Begin(bytes) // and of answers, until they are sent
//
//	body := m.Begin(cut)                    // or one message by itself
//	defer body.End()
//	body.Add(n)                             // as its parts come
//
// Nobody is refused for what others hold. Beyond the bound it is cut who holds the most,
// or who has taken the longest: a caller who sends as fast as it can is neither.
package unfinished
