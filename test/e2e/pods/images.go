//go:build linux

package pods

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
)

// Image is the content of an image.
type Image struct {
	// Files are this machine's files, by their paths in the image.
	Files map[string]string
	// Entrypoint goes before a container's arguments; nil: the arguments name the program.
	Entrypoint []string
	// Listen are further arguments, with which the program listens at one address only; nil:
	// variables of the environment do, whose value begins with a colon.
	Listen func(address string) []string
}

// Setpoint is the image of the programs: setpoint and setpoint-kubernetes.
func Setpoint(setpoint, kubernetes string) Image {
	return Image{Files: map[string]string{"/setpoint": setpoint, "/setpoint-kubernetes": kubernetes}, Entrypoint: []string{"/setpoint"}}
}

// Redis is an image of this machine's redis-server, with the libraries that it needs.
func Redis() (Image, error) {
	path, err := exec.LookPath("redis-server")
	if err != nil {
		return Image{}, err
	}
	libraries, err := exec.Command("ldd", path).Output()
	if err != nil {
		return Image{}, fmt.Errorf("ldd %s: %w", path, err)
	}
	image := Image{Files: map[string]string{"/usr/bin/redis-server": path}, Listen: func(address string) []string { return []string{"--bind", address} }}
	for _, field := range strings.Fields(string(libraries)) {
		if strings.HasPrefix(field, "/") {
			image.Files[field] = field
		}
	}
	return image, nil
}

// unpack puts the image's files into a root, by links to copies in the store, which is of the
// same file system.
func (i Image) unpack(store, root string) error {
	for to, from := range i.Files {
		kept := filepath.Join(store, strings.ReplaceAll(from, "/", "+"))
		if err := copyOnce(from, kept); err != nil {
			return err
		}
		to = filepath.Join(root, to)
		if err := errors.Join(os.MkdirAll(filepath.Dir(to), 0o755), os.Link(kept, to)); err != nil {
			return err
		}
	}
	return nil
}

// copying serializes copies: several pods of an image may start at once.
var copying sync.Mutex

// copyOnce copies a file unless it is there, whole.
func copyOnce(from, to string) error {
	copying.Lock()
	defer copying.Unlock()
	if _, err := os.Stat(to); err == nil {
		return nil
	}
	source, err := os.Open(from)
	if err != nil {
		return err
	}
	defer source.Close()
	if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
		return err
	}
	part, err := os.CreateTemp(filepath.Dir(to), ".part")
	if err != nil {
		return err
	}
	_, err = io.Copy(part, source)
	if err = errors.Join(err, part.Chmod(0o755), part.Close()); err != nil {
		return err
	}
	return os.Rename(part.Name(), to)
}
