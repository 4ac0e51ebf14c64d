/** Calls MPI by JNI, beside exceptions that the virtual machine makes of signals. */
public class Main {
    static native int start();
    static native int sum(int value);
    static native void end();

    static int depth = 0;
    static void overflow() { depth++; overflow(); }

    public static void main(String[] words) throws Exception {
        System.load(words[0]);
        int size = start(), caught = 0, sum = 0;
        int[] none = null;
        for (int i = 0; i < 20000; i++) {
            try { sum += none[i]; } catch (NullPointerException error) { caught++; }
        }
        try { overflow(); } catch (StackOverflowError error) { caught++; }
        Thread[] threads = new Thread[8];
        for (int i = 0; i < threads.length; i++) {
            threads[i] = new Thread(() -> { byte[][] kept = new byte[64][]; for (int j = 0; j < 4096; j++) kept[j % 64] = new byte[65536]; });
            threads[i].start();
        }
        for (int i = 0; i < 100; i++) sum += sum(1);
        for (Thread thread : threads) thread.join();
        System.gc();
        System.out.println("size " + size + " caught " + caught + " sum " + sum + " deep " + (depth > 1000));
        end();
    }
}
