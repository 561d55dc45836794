package webhook

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"regexp"
	"strings"
	"sync"
)

// Bounds of a file of keys.
const (
	maxKeyFileBytes = 16 << 10
	maxKeys         = 4
	minSecret       = 32
)

var keyName = regexp.MustCompile(`^[A-Za-z0-9._-]{1,64}$`)

// ParseKeys reads a file of keys: lines NAME:SECRET, the first of which signs; empty lines and
// those that begin with # don't count. Errors don't quote secrets.
func ParseKeys(text []byte) ([]Key, error) {
	var keys []Key
	seen := map[string]bool{}
	lines := bufio.NewScanner(bytes.NewReader(text))
	for n := 1; lines.Scan(); n++ {
		line := strings.TrimSpace(lines.Text())
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		name, secret, ok := strings.Cut(line, ":")
		switch {
		case !ok || !keyName.MatchString(name):
			return nil, fmt.Errorf("line %d is not NAME:SECRET, the name of letters, digits and . _ -", n)
		case len(secret) < minSecret || strings.ContainsAny(secret, " \t"):
			return nil, fmt.Errorf("line %d: the secret must have at least %d characters and no space, as from openssl rand -hex 32", n, minSecret)
		case seen[name]:
			return nil, fmt.Errorf("line %d: there is a key of that name before it", n)
		}
		seen[name] = true
		keys = append(keys, Key{name, []byte(secret)})
	}
	switch {
	case lines.Err() != nil:
		return nil, lines.Err()
	case len(keys) == 0:
		return nil, errors.New("it holds no key: write NAME:SECRET, the secret as from openssl rand -hex 32")
	case len(keys) > maxKeys:
		return nil, fmt.Errorf("it holds %d keys, more than %d", len(keys), maxKeys)
	}
	return keys, nil
}

// keyFile is a file of keys that is read again when it changes.
type keyFile struct {
	name string

	mu   sync.Mutex
	keys []Key       // guarded by mu; nil: none was read yet
	info os.FileInfo // guarded by mu; of the file that they are of
}

// signing returns the key that signs. While the file is being replaced, or is wrong, those
// that were read last count.
func (f *keyFile) signing() (Key, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := f.read(); err != nil && f.keys == nil {
		return Key{}, err
	}
	return f.keys[0], nil
}

func (f *keyFile) read() error {
	info, err := os.Stat(f.name)
	if err == nil && f.keys != nil && os.SameFile(info, f.info) && info.ModTime().Equal(f.info.ModTime()) && info.Size() == f.info.Size() {
		return nil
	}
	if err != nil {
		return fmt.Errorf("key file: %w", err)
	}
	text, err := readFile(f.name, maxKeyFileBytes)
	if err != nil {
		return fmt.Errorf("key file: %w", err)
	}
	keys, err := ParseKeys(text)
	if err != nil {
		return fmt.Errorf("key file %s: %w", f.name, err)
	}
	f.keys, f.info = keys, info
	return nil
}

// readFile reads a file of at most so many bytes.
func readFile(name string, most int64) ([]byte, error) {
	file, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	text, err := io.ReadAll(io.LimitReader(file, most+1))
	if err == nil && int64(len(text)) > most {
		err = fmt.Errorf("%s is larger than %d bytes", name, most)
	}
	return text, err
}
