// Texts to try, written for this page.

export const EXAMPLES = [
  {
    name: "Bee hives",
    text: `Listening to the hive: acoustic monitoring of honey bee colonies with low-cost sensors
Beekeepers open their hives to see whether a colony is about to swarm, and disturb it each time. We place a small microphone and a temperature sensor under the lid and learn from sound alone in which state a colony is. A recurrent neural network reads the spectrogram of one minute of sound and tells a queenless colony from a healthy one, and announces swarming up to two days ahead. Trained on recordings of forty hives over three summers, the network is small enough for a microcontroller that runs on a solar cell. In a field study with twelve beekeepers, acoustic monitoring halved the number of inspections, and no swarm was lost. We publish the recordings and the design of the sensor.`,
  },
  {
    name: "Bus timetables",
    text: `Robust timetables for rural bus networks by stochastic optimization
Where buses are few, a missed connection costs an hour. Timetables are usually planned as if every bus kept its time, so that small delays spread through the network. We formulate timetabling as a two-stage stochastic program in which the planned times are chosen before, and the waiting decisions after the delays are known. As the number of delay scenarios makes the integer program too large to solve directly, we use Benders decomposition and a heuristic that fixes the times of lines far from any transfer. On the networks of three counties the timetables keep 94 percent of all connections, against 81 percent for those in use, without an additional bus. Passengers wait four minutes longer on average for a connection that they can rely on.`,
  },
  {
    name: "Water mills",
    text: `Keeping the village mill running: small water turbines for old mill sites
Thousands of water mills stand idle although the water still runs past them. We ask what a water turbine must be like so that a village can afford it. A water wheel is robust but slow; a water turbine is fast but choked by leaves. We build a small turbine of recycled plastic with a self-cleaning screen, and measure its efficiency at four mill sites over two years. Water flow, water level and power output were logged every minute. At low water flow the turbine still turns, and the power output covers the street lighting of a village of three hundred people. A simple control of the gate keeps the water level steady, so that fish can pass.`,
  },
];
