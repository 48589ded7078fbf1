package main

import (
	"bufio"
	"io"
	"strconv"
	"strings"
	"syscall"
)

// mourn reads lines "+pid" and "-pid", and when its input ends it kills whoever is still on the list: a test process that dies,
// by whatever signal, leaves no server behind.
func mourn(input io.Reader) {
	living := map[int]bool{}
	lines := bufio.NewScanner(input)
	for lines.Scan() {
		line := lines.Text()
		if pid, err := strconv.Atoi(strings.TrimLeft(line, "+-")); err == nil {
			living[pid] = strings.HasPrefix(line, "+")
		}
	}
	for pid, alive := range living {
		if alive {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
	}
}
