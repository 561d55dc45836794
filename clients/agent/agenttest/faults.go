package agenttest

import "sync"

// Faults is the part of a World that fails as a test says and counts what was written, to be
// embedded. The zero value fails nothing. It is safe for concurrent use.
type Faults struct {
	mu          sync.Mutex
	changes     int // guarded by mu, as is all that follows
	readErr     error
	writeErr    error
	beforeWrite func()
}

// Changes implements World.
func (f *Faults) Changes() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.changes
}

// FailReads implements World.
func (f *Faults) FailReads(err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.readErr = err
}

// FailWrites implements World.
func (f *Faults) FailWrites(err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.writeErr = err
}

// BeforeWrite implements World.
func (f *Faults) BeforeWrite(call func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.beforeWrite = call
}

// ReadErr is what reads are to fail with; nil: nothing.
func (f *Faults) ReadErr() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.readErr
}

// WriteErr is what a write of a count is to fail with; nil: nothing.
func (f *Faults) WriteErr() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.writeErr
}

// BeginWrite is called before a count is written, and without a lock of the world's, which what
// BeforeWrite was given may need.
func (f *Faults) BeginWrite() {
	f.mu.Lock()
	before := f.beforeWrite
	f.beforeWrite = nil
	f.mu.Unlock()
	if before != nil {
		before()
	}
}

// Wrote counts a write that changed a workload.
func (f *Faults) Wrote() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.changes++
}
