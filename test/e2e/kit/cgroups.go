//go:build linux

package kit

import (
	"errors"
	"io/fs"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// patience bounds the wait for killed processes on a busy machine.
const patience = 3 * time.Minute

// RemoveGroups removes the control groups that containers leave behind: those below all of a name, which are empty or become so.
func RemoveGroups(name string) error {
	var groups []string
	err := filepath.WalkDir("/sys/fs/cgroup", func(path string, entry fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil // others come and go
		}
		if err == nil && entry.IsDir() && strings.Contains(path+"/", "/"+name+"/") {
			groups = append(groups, path)
		}
		return err
	})
	for i := len(groups) - 1; i >= 0; i-- {
		removed := syscall.Rmdir(groups[i])
		for deadline := time.Now().Add(patience); errors.Is(removed, syscall.EBUSY) && time.Now().Before(deadline); removed = syscall.Rmdir(groups[i]) {
			time.Sleep(20 * time.Millisecond)
		}
		err = errors.Join(err, removed)
	}
	return err
}
