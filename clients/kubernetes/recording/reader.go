package recording

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"iter"
	"unicode/utf8"

	"github.com/setpoint-dev/setpoint/internal/document"
)

// MaxLineBytes bounds a line, uncompressed: one scenario with all its steps.
const MaxLineBytes = 128 << 20

// MaxLineObjects bounds the objects of a line: in memory an empty one takes some hundred times its two bytes. An
// agent's scenarios have some 0.8 million at most, in 32 MiB.
const MaxLineObjects = 2_000_000

// MaxBytes bounds a file, uncompressed: a compressed one of a few MiB may hold any number of bytes. An agent's
// files, of 100 MiB, hold some 6 GiB.
const MaxBytes = 8 << 30

// MaxEmptyBytes bounds the empty lines, all together: a compressed file may hold any number
// of them in a few bytes.
const MaxEmptyBytes = 1 << 20

// MaxUnreadable bounds the lines that hold no scenario: a file with more of them is something else.
const MaxUnreadable = 1000

// Reader reads the scenarios of a file one by one.
type Reader struct {
	name  string
	input *bufio.Reader
	// opened reports whether input is the uncompressed text.
	opened bool
	// line is the number of the line last read, from 1.
	line int
	// bytes counts what was read, uncompressed, of most.
	bytes, most int64
	// empty counts the bytes of empty lines.
	empty int
	// unreadable is how many lines held no scenario.
	unreadable int
	// begun reports whether there was a line that is not empty.
	begun bool
	// err is the final error: io.EOF or an error of the input.
	err error
}

// NewReader returns a reader of a recording, plain or compressed with gzip. Errors contain the
// name.
func NewReader(name string, r io.Reader) *Reader {
	return &Reader{name: name, input: bufio.NewReaderSize(r, 64<<10), most: MaxBytes}
}

// All yields the scenarios. With an error the scenario is nil; the loop may continue with the
// next line, if there is one.
func (r *Reader) All() iter.Seq2[*Scenario, error] {
	return func(yield func(*Scenario, error) bool) {
		for {
			scenario, err := r.Next()
			if errors.Is(err, io.EOF) {
				return
			}
			if !yield(scenario, err) || r.err != nil {
				return
			}
		}
	}
}

// Next returns the next scenario, io.EOF after the last. It skips empty lines. Other errors
// name file and line, and the problem by field or byte. After an error in one line the next
// call returns the next; after an error of the input, such as a truncated compressed file or a
// first line that is no object, all further calls return it again.
func (r *Reader) Next() (*Scenario, error) {
	for r.err == nil {
		line, err := r.readLine()
		if err != nil {
			r.err = err
		}
		if len(line) == 0 {
			continue
		}
		first := !r.begun
		r.begun = true
		var scenario *Scenario
		if err = document.ErrUTF8; utf8.Valid(line) {
			if first && line[0] != '{' { // CSV, or any other text: nothing of it is to be told line by line
				r.err = fmt.Errorf(`%s:%d: this is no recording, of which each line is a scenario in JSON, {"name": …}`, r.name, r.line)
				return nil, r.err
			}
			scenario, err = parseLine(line)
		}
		if err != nil {
			err = fmt.Errorf("%s:%d: %w", r.name, r.line, err)
			if r.unreadable++; r.unreadable >= MaxUnreadable {
				r.err = fmt.Errorf("%w; %d lines hold no scenario, up to here: is this a recording?", err, r.unreadable)
				return nil, r.err
			}
			return nil, err
		}
		return scenario, nil
	}
	return nil, r.err
}

// readLine returns the next line without its end and surrounding space. A last
// line without an end comes with io.EOF.
func (r *Reader) readLine() ([]byte, error) {
	if err := r.open(); err != nil {
		return nil, err
	}
	r.line++
	var line []byte
	for {
		part, err := r.input.ReadSlice('\n')
		if r.bytes += int64(len(part)); r.bytes > r.most {
			return nil, fmt.Errorf("%s:%d: the file has more than %d bytes, uncompressed: split it, or record a shorter time", r.name, r.line, r.most)
		}
		if err == nil && len(line) == 0 && len(bytes.TrimSpace(part)) == 0 {
			return nil, r.skip(len(part))
		}
		if len(line)+len(part) > MaxLineBytes {
			return nil, fmt.Errorf("%s:%d: the line is longer than %d bytes", r.name, r.line, MaxLineBytes)
		}
		line = append(line, part...)
		switch {
		case errors.Is(err, bufio.ErrBufferFull):
			continue
		case errors.Is(err, io.EOF):
			return bytes.TrimSpace(line), io.EOF
		case err != nil:
			return nil, r.inputError(err)
		}
		if text := bytes.TrimSpace(line); len(text) > 0 {
			return text, nil
		}
		return nil, r.skip(len(line))
	}
}

// skip counts the bytes of an empty line, which Next skips.
func (r *Reader) skip(length int) error {
	if r.empty += length; r.empty > MaxEmptyBytes {
		return fmt.Errorf("%s:%d: empty lines have more than %d bytes so far", r.name, r.line, MaxEmptyBytes)
	}
	return nil
}

// open detects compression by the first bytes.
func (r *Reader) open() error {
	if r.opened {
		return nil
	}
	r.opened = true
	magic, err := r.input.Peek(2)
	if err != nil && !errors.Is(err, io.EOF) {
		return r.inputError(err)
	}
	if !bytes.Equal(magic, []byte{0x1f, 0x8b}) {
		return nil
	}
	uncompressed, err := gzip.NewReader(r.input)
	if err != nil {
		return r.inputError(err)
	}
	r.input = bufio.NewReaderSize(uncompressed, 64<<10)
	return nil
}

// inputError adds the place to an error of the input.
func (r *Reader) inputError(err error) error {
	where := r.name
	if r.line > 0 {
		where = fmt.Sprintf("%s:%d", r.name, r.line)
	}
	if errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, io.EOF) {
		return fmt.Errorf("%s: unexpected end of file: the compressed data is cut off", where)
	}
	return fmt.Errorf("%s: %w", where, err)
}
