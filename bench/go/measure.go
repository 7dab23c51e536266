package main

import (
	"encoding/json"
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// outcome is what a contestant has to report.
type outcome struct {
	// count is the work that was really done.
	count int64
	cost  cost
	// figures are those that only this job has.
	figures map[string]float64
	// keep is what the work has built up; it is held until its memory has been measured.
	keep any
}

// cost is what a stretch of work took.
type cost struct {
	wall time.Duration
	// cpu is user and system time of all threads.
	cpu time.Duration
}

func (c cost) plus(other cost) cost {
	return cost{c.wall + other.wall, c.cpu + other.cpu}
}

// stopwatch measures a stretch of work.
type stopwatch struct {
	started time.Time
	cpu     time.Duration
}

func startStopwatch() stopwatch {
	cpu := cpuTime()
	return stopwatch{time.Now(), cpu}
}

func (s stopwatch) cost() cost {
	return cost{time.Since(s.started), cpuTime() - s.cpu}
}

// report lets the memory settle and prints the result line.
func (o outcome) report() error {
	settle()
	resident, peak := memory()
	line := map[string]any{
		"count":   o.count,
		"wall_s":  o.cost.wall.Seconds(),
		"cpu_s":   o.cost.cpu.Seconds(),
		"rss_mb":  float64(resident) / 1e6,
		"peak_mb": float64(peak) / 1e6,
	}
	for name, value := range o.figures {
		line[name] = value
	}
	text, err := json.Marshal(line)
	if err != nil {
		return err
	}
	fmt.Println(string(text))
	runtime.KeepAlive(o.keep)
	return nil
}

// settle gives unused memory back to the system, which the runtime would otherwise do some time later.
func settle() {
	runtime.GC()
	debug.FreeOSMemory()
}

// cpuTime is user and system time of this process so far.
func cpuTime() time.Duration {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		panic(err) // A process may always ask for its own usage.
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}

// memory gives the bytes resident now, and the most that ever were (or since resetPeak). Linux only, else 0.
func memory() (resident, peak int64) {
	status, _ := os.ReadFile("/proc/self/status")
	for line := range strings.SplitSeq(string(status), "\n") {
		name, value, _ := strings.Cut(line, ":")
		kibibytes, err := strconv.ParseInt(strings.TrimSpace(strings.TrimSuffix(value, "kB")), 10, 64)
		if err != nil {
			continue
		}
		switch name {
		case "VmRSS":
			resident = kibibytes * 1024
		case "VmHWM":
			peak = kibibytes * 1024
		}
	}
	return resident, peak
}

// resetPeak forgets the peak so far. Where the system does not allow that, the peak stays what it is.
func resetPeak() {
	_ = os.WriteFile("/proc/self/clear_refs", []byte("5"), 0)
}
