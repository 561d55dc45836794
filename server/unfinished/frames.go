package unfinished

import (
	"encoding/binary"
	"net"
)

// The relevant parts of HTTP/2 (RFC 9113) and of gRPC's framing.
const (
	prefaceBytes     = 24 // before a client's first frame
	frameHeaderBytes = 9

	frameData         = 0x0
	frameHeaders      = 0x1
	frameReset        = 0x3
	frameSettings     = 0x4
	frameWindowUpdate = 0x8

	flagEndStream = 0x1
	flagPadded    = 0x8

	settingWindow = 4     // SETTINGS_INITIAL_WINDOW_SIZE
	defaultWindow = 65535 // until the server changes it

	messagePrefixBytes = 5 // a byte of flags and four bytes of length
)

// Frames returns a connection on top of this one, in plain text, that carries HTTP/2 frames
// with gRPC messages: it parses what it reads and writes, to know what each stream holds.
func (c *Conn) Frames(clear net.Conn) net.Conn {
	f := &framed{Conn: clear, counted: c, window: defaultWindow, streams: make(map[uint32]stream)}
	f.in.preface = prefaceBytes
	return f
}

// framed is a connection whose frames are parsed.
type framed struct {
	net.Conn
	counted *Conn
	in      walker // used by the reader only

	// The other fields are guarded by counted.frames.

	out     walker
	streams map[uint32]stream // open streams with a body
	last    uint32            // the highest stream id so far
	window  int64             // what each stream may send before the server takes it
	held    int64             // of all streams
}

// stream is the state of a stream, in bytes.
type stream struct {
	// prefix counts the bytes received of a message's prefix, size is the length that they
	// have announced so far, left is the missing part of the message.
	prefix     int
	size, left uint32
	// unfinished is the received part of an incomplete message; came is everything
	// received, and taken what the server has taken of it, as reported to the caller.
	unfinished, came, taken int64
}

// held is what the server keeps of the stream: an incomplete message, or complete ones not
// taken yet. What was taken is reported in quarters of the window.
func (s *stream) held(window int64) int64 {
	return max(s.unfinished, s.came-s.taken-window/4, 0)
}

// Read implements net.Conn.
func (f *framed) Read(b []byte) (int, error) {
	n, err := f.Conn.Read(b)
	if n > 0 {
		f.counted.frames.Lock()
		before := f.held
		f.in.walk(b[:n], f, true)
		change, many := f.held-before, len(f.streams) > f.counted.mostStreams()
		f.counted.frames.Unlock()
		f.changed(change)
		if many {
			f.counted.end()
		}
	}
	return n, err
}

// Write implements net.Conn.
func (f *framed) Write(b []byte) (int, error) {
	f.counted.frames.Lock()
	before := f.held
	f.out.walk(b, f, false)
	change := f.held - before
	f.counted.frames.Unlock()
	f.changed(change)
	return f.Conn.Write(b)
}

func (f *framed) changed(by int64) {
	switch {
	case by > 0:
		f.counted.Add(int(by))
	case by < 0:
		f.counted.Finished(int(-by))
	}
}

// walker parses the bytes of one direction, however they are split.
type walker struct {
	preface int
	header  [frameHeaderBytes]byte
	got     int // received bytes of the header
	left    int // missing bytes of the payload
	// padding is at the end of the payload; padded reports that its length comes first.
	padding int
	padded  bool
	// begin is the beginning of a short payload.
	begin [48]byte
	begun int
}

func (w *walker) kind() byte     { return w.header[3] }
func (w *walker) flags() byte    { return w.header[4] }
func (w *walker) stream() uint32 { return binary.BigEndian.Uint32(w.header[5:]) &^ (1 << 31) }

func (w *walker) walk(b []byte, f *framed, in bool) {
	for len(b) > 0 {
		if w.preface > 0 {
			n := min(w.preface, len(b))
			w.preface, b = w.preface-n, b[n:]
			continue
		}
		if w.got < frameHeaderBytes {
			n := copy(w.header[w.got:], b)
			w.got, b = w.got+n, b[n:]
			if w.got < frameHeaderBytes {
				return
			}
			w.left = int(w.header[0])<<16 | int(w.header[1])<<8 | int(w.header[2])
			w.begun, w.padding = 0, 0
			w.padded = in && w.kind() == frameData && w.flags()&flagPadded != 0
			if in {
				f.frameBegins(w)
			}
		}
		n := min(w.left, len(b))
		w.payload(b[:n], f, in)
		w.left, b = w.left-n, b[n:]
		if w.left == 0 {
			f.frameEnds(w, in)
			w.got = 0
		}
	}
}

func (w *walker) payload(b []byte, f *framed, in bool) {
	w.begun += copy(w.begin[w.begun:], b)
	if !in || w.kind() != frameData || len(b) == 0 {
		return
	}
	s, open := f.streams[w.stream()]
	if !open {
		return
	}
	before := s.held(f.window)
	s.came += int64(len(b))
	left := w.left - len(b)
	if w.padded {
		w.padding, w.padded, b = int(b[0]), false, b[1:]
	}
	// The rest of the frame may be shorter than its padding.
	s.message(b[:max(0, len(b)-max(0, w.padding-left))])
	f.streams[w.stream()] = s
	f.held += s.held(f.window) - before
}

// message follows the messages of a stream.
func (s *stream) message(b []byte) {
	for len(b) > 0 {
		if s.prefix < messagePrefixBytes {
			if s.prefix > 0 {
				s.size = s.size<<8 | uint32(b[0])
			}
			s.unfinished++
			b = b[1:]
			if s.prefix++; s.prefix == messagePrefixBytes {
				s.left = s.size
			}
		} else {
			n := min(int64(s.left), int64(len(b)))
			s.left -= uint32(n)
			s.unfinished += n
			b = b[n:]
		}
		if s.prefix == messagePrefixBytes && s.left == 0 {
			s.prefix, s.size, s.unfinished = 0, 0, 0
		}
	}
}

// frameBegins handles the header of a received frame.
func (f *framed) frameBegins(w *walker) {
	if id := w.stream(); w.kind() == frameHeaders && id > f.last {
		f.last = id
		if w.flags()&flagEndStream == 0 {
			f.streams[id] = stream{}
		}
	}
}

// frameEnds handles a complete frame.
func (f *framed) frameEnds(w *walker, in bool) {
	id := w.stream()
	switch kind := w.kind(); {
	case kind == frameReset, !in && w.flags()&flagEndStream != 0 && (kind == frameHeaders || kind == frameData):
		if s, open := f.streams[id]; open {
			f.held -= s.held(f.window)
			delete(f.streams, id)
		}
	case in:
	case kind == frameWindowUpdate && w.begun >= 4:
		if s, open := f.streams[id]; open {
			before := s.held(f.window)
			s.taken += int64(binary.BigEndian.Uint32(w.begin[:]) &^ (1 << 31))
			f.streams[id] = s
			f.held += s.held(f.window) - before
		}
	case kind == frameSettings:
		for at := 0; at+6 <= w.begun; at += 6 {
			if binary.BigEndian.Uint16(w.begin[at:]) == settingWindow {
				f.windowIs(int64(binary.BigEndian.Uint32(w.begin[at+2:])))
			}
		}
	}
}

// windowIs sets what streams may send from now on.
func (f *framed) windowIs(window int64) {
	f.window, f.held = window, 0
	for _, s := range f.streams {
		f.held += s.held(window)
	}
}
