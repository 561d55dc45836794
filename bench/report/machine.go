package report

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"time"
)

// Machine describes the machine of the measurements.
type Machine struct {
	CPU       string `json:"cpu"`
	Cores     int    `json:"cores"`
	MemoryMiB int    `json:"memoryMiB"`
	Kernel    string `json:"kernel"`
	Go        string `json:"go"`
	Redis     string `json:"redis"`
	// Commit is the service's, followed by "+" if the work tree differs from it.
	Commit string    `json:"commit"`
	At     time.Time `json:"at"`
}

// ThisMachine describes this machine; what can't be determined is empty. The service is
// that of the work tree.
func ThisMachine(tree string) Machine {
	m := Machine{Cores: runtime.NumCPU(), Go: runtime.Version(), At: time.Now().UTC().Truncate(time.Second)}
	m.CPU = valueIn("/proc/cpuinfo", "model name")
	var kilobytes int
	_, _ = fmt.Sscan(valueIn("/proc/meminfo", "MemTotal"), &kilobytes)
	m.MemoryMiB = kilobytes >> 10
	if release, err := os.ReadFile("/proc/sys/kernel/osrelease"); err == nil {
		m.Kernel = strings.TrimSpace(string(release))
	}
	for _, word := range strings.Fields(said(tree, "redis-server", "--version")) {
		if version, ok := strings.CutPrefix(word, "v="); ok {
			m.Redis = version
		}
	}
	m.Commit = said(tree, "git", "rev-parse", "--short=12", "HEAD")
	if said(tree, "git", "status", "--porcelain", "--untracked-files=no") != "" {
		m.Commit += "+"
	}
	return m
}

// valueIn returns the first value of a key in a file of lines "key : value".
func valueIn(file, key string) string {
	text, err := os.ReadFile(file)
	if err != nil {
		return ""
	}
	for line := range strings.Lines(string(text)) {
		if name, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(name) == key {
			return strings.TrimSpace(value)
		}
	}
	return ""
}

func said(folder, program string, args ...string) string {
	cmd := exec.Command(program, args...)
	cmd.Dir = folder
	out, err := cmd.Output()
	if err != nil {
		return ""
	}
	return string(bytes.TrimSpace(out))
}

// String is a line about it.
func (m *Machine) String() string {
	return fmt.Sprintf("%s, %d cores, %s MiB; Linux %s; %s, Redis %s; commit %s; %s.\n", m.CPU, m.Cores, thousands(float64(m.MemoryMiB)),
		m.Kernel, m.Go, m.Redis, m.Commit, m.At.Format("2006-01-02 15:04 UTC"))
}
