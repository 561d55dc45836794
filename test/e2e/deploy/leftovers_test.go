//go:build linux

package deploy

import (
	"bytes"
	"errors"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/setpoint-dev/setpoint/test/e2e/kit"
)

// folders is how the names of daemons' folders begin.
const folders = "setpoint-docker-"

// lock locks a folder for this process's lifetime. It fails if another process has the lock.
func lock(folder string) (*os.File, error) {
	file, err := os.Create(filepath.Join(folder, "lock"))
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return file, nil
}

// removeLeftovers removes the files of daemons whose tests were killed, and which no longer
// run.
func removeLeftovers() error {
	left, err := filepath.Glob(filepath.Join(os.TempDir(), folders+"*"))
	for _, folder := range left {
		held, lockErr := lock(folder)
		if lockErr != nil {
			continue // it is in use
		}
		err = errors.Join(err, removeFolder(folder), held.Close())
	}
	return err
}

// removeFolder removes a daemon's folder and its files elsewhere.
func removeFolder(folder string) error {
	return errors.Join(removeBridges(folder), kit.RemoveGroups(filepath.Base(folder)), os.RemoveAll(folder))
}

// removeBridges removes the bridges of networks that are in the daemon's files.
func removeBridges(folder string) error {
	known, err := os.ReadFile(filepath.Join(folder, "data/network/files/local-kv.db"))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	interfaces, listErr := net.Interfaces()
	err = errors.Join(err, listErr)
	for _, one := range interfaces {
		if id, ok := strings.CutPrefix(one.Name, "br-"); ok && len(id) == 12 && bytes.Contains(known, []byte(id)) {
			err = errors.Join(err, exec.Command("ip", "link", "delete", one.Name).Run())
		}
	}
	return err
}
