// Package unfinished limits the memory of messages that callers have only partly sent, so
// that a caller that withholds the rest takes neither memory nor places from others.
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
// No caller is refused because of others. Beyond the limit the largest holder, or the
// oldest body, is cut off: a caller that sends at full speed is neither.
package unfinished
