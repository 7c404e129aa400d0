// Persistent threads that run one function together and meet at barriers: spin for a moment, then sleep.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

#if defined(__x86_64__) || defined(__i386__)
#include <immintrin.h>
#endif

namespace miton {

inline void relax() {
#if defined(__x86_64__) || defined(__i386__)
    _mm_pause();
#elif defined(__aarch64__)
    asm volatile("yield");
#endif
}

class ThreadPool {
public:
    explicit ThreadPool(int threads) : count_(threads < 1 ? 1 : threads) {
        for (int i = 1; i < count_; i++) workers_.emplace_back([this, i] { work(i); });
    }

    ~ThreadPool() {
        {
            std::lock_guard<std::mutex> lock(mutex_);
            stopping_ = true;
            generation_.fetch_add(1);
        }
        wake_.notify_all();
        for (auto& worker : workers_) worker.join();
    }

    int size() const { return count_; }

    // Runs task(thread) on every thread (the caller is thread 0) and returns when all are done. Callers take turns.
    void run(const std::function<void(int)>& task) {
        std::lock_guard<std::mutex> turn(turn_);
        task_ = &task;
        running_.store(count_ - 1);
        {
            std::lock_guard<std::mutex> lock(mutex_);
            generation_.fetch_add(1);
        }
        if (sleeping_.load()) wake_.notify_all();
        task(0);
        for (int left; (left = running_.load(std::memory_order_acquire));) wait_while(running_, left);
    }

    // Every thread of the running task must come here before any goes on.
    void barrier() {
        int phase = phase_.load(std::memory_order_acquire);
        if (arrived_.fetch_add(1, std::memory_order_acq_rel) == count_ - 1) {
            arrived_.store(0, std::memory_order_relaxed);
            phase_.store(phase + 1, std::memory_order_release);
            phase_.notify_all();
            return;
        }
        wait_while(phase_, phase);
    }

private:
    // Spins for the few microseconds that peers need, then sleeps: a peer may have lost its core to another program,
    // and one that waits by spinning would keep it from getting this one.
    static void wait_while(const std::atomic<int>& value, int old) {
        for (int spins = 0; spins < barrier_spins; spins++) {
            if (value.load(std::memory_order_acquire) != old) return;
            relax();
        }
        value.wait(old, std::memory_order_acquire);
    }

    void work(int index) {
        uint64_t seen = 0;
        while (true) {
            auto deadline = std::chrono::steady_clock::now() + std::chrono::microseconds(300);
            for (int spins = 0; generation_.load(std::memory_order_acquire) == seen; spins++) {
                relax();
                if ((spins & 63) == 63 && std::chrono::steady_clock::now() > deadline) {
                    std::unique_lock<std::mutex> lock(mutex_);
                    sleeping_.fetch_add(1);
                    wake_.wait(lock, [&] { return generation_.load() != seen; });
                    sleeping_.fetch_sub(1);
                }
            }
            seen = generation_.load();
            if (stopping_) return;
            (*task_)(index);
            running_.fetch_sub(1, std::memory_order_acq_rel);
            running_.notify_one();
        }
    }

#ifndef MITON_SPINS
#define MITON_SPINS 256
#endif
    static constexpr int barrier_spins = MITON_SPINS;
    const int count_;
    std::vector<std::thread> workers_;
    std::mutex turn_, mutex_;
    std::condition_variable wake_;
    const std::function<void(int)>* task_ = nullptr;
    bool stopping_ = false;
    alignas(64) std::atomic<uint64_t> generation_{0};
    alignas(64) std::atomic<int> running_{0};
    std::atomic<int> sleeping_{0};
    alignas(64) std::atomic<int> arrived_{0};
    alignas(64) std::atomic<int> phase_{0};
};

// Hands out the items 0..total-1 of one stage: each thread takes its own contiguous share first (so that its reads
// stream), then what slower threads have left. One claim counter per thread, each in its own cache line.
class Shares {
public:
    void reset(int stages, int threads) {
        threads_ = threads;
        if (int(counters_.size()) < stages * threads) counters_ = std::vector<Counter>(size_t(stages) * threads);
        for (int i = 0; i < stages * threads; i++) counters_[i].next.store(0, std::memory_order_relaxed);
    }

    // Calls visit(item) for every item this thread gets.
    template <typename Visit> void each(int stage, int thread, int total, Visit visit) {
        for (int i = 0; i < threads_; i++) {
            int owner = (thread + i) % threads_;
            int begin = int(int64_t(total) * owner / threads_), end = int(int64_t(total) * (owner + 1) / threads_);
            auto& next = counters_[size_t(stage) * threads_ + owner].next;
            while (true) {
                int item = begin + next.fetch_add(1, std::memory_order_relaxed);
                if (item >= end) break;
                visit(item);
            }
        }
    }

private:
    struct alignas(64) Counter {
        std::atomic<int> next{0};
        Counter() = default;
        Counter(const Counter&) {}
        Counter& operator=(const Counter&) { return *this; }
    };
    std::vector<Counter> counters_;
    int threads_ = 1;
};

}  // namespace miton
